# The S3 store of the stack, built from its Go module where no registry can be reached.
ARG BASE
FROM ${BASE}
COPY versitygw /usr/local/bin/versitygw
VOLUME /data
ENTRYPOINT ["versitygw"]
