"""Presentation of single kinds of measurement and study on terminal and page, in a module named after each kind; the
module `details` defines what they may present."""
