"""Name the keys of mllog (MLPerf's log format), and the keys that this harness adds to logs.

mllog's keys are spelled as in mlperf_logging.mllog.constants; a test compares the spellings.
"""

# events of a run, in order
CACHE_CLEAR = "cache_clear"
INIT_START = "init_start"
INIT_STOP = "init_stop"
RUN_START = "run_start"
RUN_STOP = "run_stop"
EPOCH_START = "epoch_start"
EPOCH_STOP = "epoch_stop"
BLOCK_START = "block_start"
BLOCK_STOP = "block_stop"
EVAL_START = "eval_start"
EVAL_STOP = "eval_stop"
EVAL_ACCURACY = "eval_accuracy"
TRACKED_STATS = "tracked_stats"

# power measurements, in files of their own
POWER_MEASUREMENT_START = "power_measurement_start"
POWER_READING = "power_reading"
POWER_MEASUREMENT_STOP = "power_measurement_stop"
CONVERSION_EFF = "conversion_eff"
INTERCONNECT_POWER_EST = "interconnect_power_est"

# submission, system and benchmark
SUBMISSION_BENCHMARK = "submission_benchmark"
SUBMISSION_DIVISION = "submission_division"
SUBMISSION_ORG = "submission_org"
SUBMISSION_PLATFORM = "submission_platform"
SUBMISSION_STATUS = "submission_status"
SEED = "seed"
TRAIN_SAMPLES = "train_samples"
EVAL_SAMPLES = "eval_samples"

# hyperparameters
GLOBAL_BATCH_SIZE = "global_batch_size"
GRADIENT_ACCUMULATION_STEPS = "gradient_accumulation_steps"
OPT_NAME = "opt_name"
OPT_BASE_LEARNING_RATE = "opt_base_learning_rate"
OPT_WEIGHT_DECAY = "opt_weight_decay"
OPT_ADAGRAD_EPSILON = "opt_adagrad_epsilon"
MAX_SEQUENCE_LENGTH = "max_sequence_length"
LR_DECAY_START_STEPS = "lr_decay_start_steps"
WEIGHTS_INITIALIZATION = "weights_initialization"

# what a log discloses of its run: allowed in round 6.0, required from 6.1 on
LOWEST_NUMERICAL_PRECISION_IN_LINEAR = "lowest_numerical_precision_in_linear"
LOWEST_NUMERICAL_PRECISION_IN_ATTN = "lowest_numerical_precision_in_attn"
LOWEST_NUMERICAL_PRECISION_IN_COMM = "lowest_numerical_precision_in_comm"
TENSOR_PARALLELISM = "tensor_parallelism"
PIPELINE_PARALLELISM = "pipeline_parallelism"
CONTEXT_PARALLELISM = "context_parallelism"
EXPERT_PARALLELISM = "expert_parallelism"
MICRO_BATCH_SIZE = "micro_batch_size"
CONFIG_FILENAME = "config_filename"

# metadata
EPOCH_NUM = "epoch_num"
FIRST_EPOCH_NUM = "first_epoch_num"
EPOCH_COUNT = "epoch_count"
SAMPLES_COUNT = "samples_count"
STEP_NUM = "step_num"
STATUS = "status"
REASON = "reason"
IS_CLAIMED = "is_claimed"
"""Key in the metadata of opt_name. Its value is true where the optimizer's name is only what the implementation
states, since it gave no optimizer that could be inspected."""

# added by this harness; unknown to the official checker, which ignores them
BENCHMARK_VERSION = "benchmark_version"
DEFINITION_SHA256 = "definition_sha256"
DATASET_SHA256 = "dataset_sha256"
QUALITY_TARGET = "quality_target"
QUALITY_METRIC = "quality_metric"
"""Key of the record that names the quality metric of eval_accuracy, logged where the metric is not the ROC AUC."""
IMPLEMENTATION = "implementation"
PRECISION = "precision"
KERNELS = "kernels"
NUM_THREADS = "num_threads"
WORLD_SIZE = "world_size"

SUCCESS = "success"
ABORTED = "aborted"
CLOSED = "closed"
OPEN = "open"
