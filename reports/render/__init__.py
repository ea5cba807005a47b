"""Writers of documents: HTML, Markdown, LaTeX, CSV, JUnit, SARIF, and lines of a terminal."""
