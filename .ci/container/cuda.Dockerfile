# No GPU has run this image. PyPI's torch brings CUDA; the host has the driver and NVIDIA's container toolkit.
FROM python:3.12-slim
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore USER=dlrmbench
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# Triton and `optimized` compile their kernels for the processors that they find.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 dlrmbench && install -d -o dlrmbench /work
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY harness harness
COPY reference_models reference_models
COPY reports reports
COPY rules rules
# torchrec is left out: its build for CUDA takes 2.8 GB.
RUN pip install '.[gpu,serve,tune]'
USER dlrmbench
WORKDIR /work
ENTRYPOINT ["dlrmbench"]
