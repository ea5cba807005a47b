"""Prepare datasets from a user's files, of any format, in three passes and bounded memory.

`lines` reads text, `spool` stores parsed columns on disk, `dictionary` numbers categories, `pipeline` runs the passes
from the files to a finished dataset. Each kind of data has a reader of its files.
"""
