"""Renderers of documents: HTML, Markdown, LaTeX, CSV, JUnit, SARIF, and text for a terminal."""
