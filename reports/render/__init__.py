"""From a document to HTML."""
