"""Make, resume and finish experiments. An experiment is one run set (repeated runs of one configuration), or several
run sets that are compared, with the plan of what is to be run.

request -> expand -> prepare -> create -> complete -> finish

`expand` resolves the request and refuses what cannot run; it writes nothing. `prepare` makes data ready and
autotunes. `create` makes the folders. `complete` makes the repetitions that a folder lacks, whether the folder is new
or its experiment was interrupted. `finish` judges and reports.
"""
