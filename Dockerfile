# Runs the command line on a mounted folder; docs/how-to/deployment.md describes the CPU and the GPU image.
FROM python:3.11-slim

# Index of PyTorch's CPU wheels. Without it, pip installs the CUDA build, for the GPU image.
ARG TORCH_INDEX=
ARG EXTRAS=clip,onnx,photos,table

WORKDIR /opt/cgmcr2
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]"

# A home that any user may write to, for `docker run --user`
ENV HOME=/tmp
WORKDIR /data
ENTRYPOINT ["cgmcr2"]
CMD ["--help"]
