# dlrmbench on CPUs; README has the commands that build and run it.
FROM python:3.12-slim
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore USER=dlrmbench
# `optimized` compiles its kernels for the processor that it finds.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 dlrmbench && install -d -o dlrmbench /work
RUN pip install 'torch<2.14' --index-url https://download.pytorch.org/whl/cpu
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY harness harness
COPY reference_models reference_models
COPY reports reports
COPY rules rules
# What serve, tune and torchrec's verbs need is in it, as whoever runs it may not install.
RUN pip install '.[serve,tune]'
RUN pip install --no-deps -r reference_models/dlrm/requirements/torchrec-cpu.txt
USER dlrmbench
WORKDIR /work
ENTRYPOINT ["dlrmbench"]
