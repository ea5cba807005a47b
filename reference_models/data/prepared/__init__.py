"""Datasets made of the user's own files, whatever their form, in three passes and bounded memory.

`lines` reads text, `spool` keeps the columns on disk, `dictionary` numbers categories, `pipeline` leads from the
files to a finished store. A kind of data gives the reader of its files.
"""
