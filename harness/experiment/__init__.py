"""Make, resume and finish experiments: one run set (repeated runs of one configuration) or several that are compared,
with the plan of what is to be run.

    request -> expand -> prepare -> create -> complete -> finish

`expand` resolves the request and refuses what cannot run, without writing; `prepare` makes data ready and autotunes;
`create` makes the folders; `complete` is the only loop, for new and for interrupted folders alike; `finish` judges
and reports.
"""
