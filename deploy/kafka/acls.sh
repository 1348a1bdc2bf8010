#!/bin/sh
# The rights of each role on Kafka, and no more. Run once, by who may change the cluster's ACLs:
#
#   BOOTSTRAP=kafka:9093 COMMAND_CONFIG=admin.properties ./acls.sh
#
# Principals are User:spanfuse-ROLE; PREFIX=User:… changes that. KAFKA_ACLS is the command, default kafka-acls.sh.
set -eu

: "${BOOTSTRAP:?host:port of a broker}"
PREFIX=${PREFIX:-User:spanfuse-}
KAFKA_ACLS=${KAFKA_ACLS:-kafka-acls.sh}

# allow ROLE "OPERATION…" topic|group NAME…
allow() {
  role=$1 operations=$2 kind=$3
  shift 3
  names=$*
  set --
  for operation in $operations; do set -- "$@" --operation "$operation"; done
  for name in $names; do set -- "$@" "--$kind" "$name"; done
  "$KAFKA_ACLS" --bootstrap-server "$BOOTSTRAP" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PREFIX$role" "$@"
}

CHANGELOGS="spanfuse-sessions-changelog spanfuse-scopes-changelog"
ALL="otlp_spans otlp_logs spanfuse.calls spanfuse.detections spanfuse.charges spanfuse.control spanfuse.audit spanfuse.policy
  spanfuse.dead-letter $CHANGELOGS"

# `spanfuse topics create`: makes those that are missing, and compares the others.
allow topics "Create Describe DescribeConfigs" topic $ALL

# `spanfuse worker`. Read and Write include Describe.
allow worker Read topic otlp_spans otlp_logs spanfuse.calls spanfuse.charges spanfuse.policy $CHANGELOGS
allow worker Write topic spanfuse.calls spanfuse.charges spanfuse.detections spanfuse.control spanfuse.audit spanfuse.dead-letter $CHANGELOGS
allow worker "Read Describe" group spanfuse

# A worker that takes OTLP itself (`receivers.otlp`) writes what it takes.
allow worker Write topic otlp_spans otlp_logs

# `spanfuse api`, and commands that reach workers through Kafka: look, reset, order, change the policy.
allow api Read topic spanfuse.control spanfuse.detections spanfuse.audit spanfuse.policy spanfuse.calls
allow api Write topic spanfuse.calls spanfuse.charges spanfuse.policy
allow api Describe topic otlp_spans otlp_logs spanfuse.charges
allow api Describe group spanfuse

# The Collector, and agents that send spans and reports straight to Kafka.
allow collector Write topic otlp_spans otlp_logs

# Guards that follow decisions on Kafka. They join no group.
allow guard Read topic spanfuse.control

# `spanfuse replay`, `record`, `tune` and `doctor` on topics: they join no group, and write nothing.
allow replay Read topic otlp_spans otlp_logs spanfuse.calls
