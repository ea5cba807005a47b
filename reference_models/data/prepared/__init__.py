"""Preparation of datasets from a user's files, of any format, in three passes and bounded memory.

`lines` reads text, `spool` stores the columns on disk, `dictionary` numbers categories, `pipeline` runs the passes
from the files to a finished store. Each kind of data has a reader of its files.
"""
