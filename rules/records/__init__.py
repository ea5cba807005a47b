"""Define one type for each JSON file that the harness writes beside MLPerf logs; writer and readers share the type,
and the file's JSON Schema is generated from it.

    record = decode(path, RunRecord)        # RunRecord | Damage; never raises for what the file holds
    if isinstance(record, Damage): ...      # .path, .member, .found, .expected; str() is one sentence
    text = encode(record)                   # JSON text, as all files beside the logs are written
    schema = json_schema(RunRecord)         # also: dlrmbench schema run

| file                                | type             | module here    |
|-------------------------------------|------------------|----------------|
| extra/run_set.json                  | RunSetRecord     | run_set        |
| extra/run_<i>/attempt_<k>/run.json  | RunRecord        | run            |
| extra/throughput.json               | ThroughputRecord | throughput     |
| extra/profile.json                  | ProfileRecord    | profile        |
| experiment.json                     | ExperimentRecord | experiment     |
| study.json                          | StudyRecord      | study          |
| systems/<system>.json               | SystemRecord     | system         |
| manifest.json of `<dataset>/id_maps/` | IdMapManifest    | kept.id_maps   |
| manifest.json of a checkpoint       | CheckpointManifest | kept.checkpoint |
| hooks.json in a repetition's folder | HooksRecord      | kept.hooks     |
| a line of --log-to FILE.jsonl       | EventRecord      | kept.event     |

Types of an extension's files are in its own records.py; `dlrmbench schema` lists all.

Versions: files state `schema_version`, and only version 1 is read. A file of any other version (releases before 1.0
wrote 2 and 3) is damage, and the damage names the version. A file has every member, null where nothing was measured,
except members for which the record has a default: a member added within version 1 gets a default, so that files
without the member are still read. All other members have no default, so that a writer forgets none. Unknown members
are ignored. A key given twice is damage. Where an attribute has a better name than its member in the file (`traffic`
for "exchange"), `msgspec.field` holds the member's name, and the attribute's name is used in keyword arguments.

A record of measurements has a type with a `MEASURE`, which states what is measured, its unit, scale and direction,
and the columns of one repetition. Its `repetitions()` are the sample that a comparison uses. `kinds.find_record_type`
returns the type for a kind of measurement.

Nothing here imports more than msgspec and rules.logs.text.
"""
