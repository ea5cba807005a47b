"""Presentation of single kinds of measurement and study on terminal and page; each module is named after its kind."""
