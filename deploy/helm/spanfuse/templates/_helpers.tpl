{{- define "spanfuse.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "spanfuse.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- $name := include "spanfuse.name" . -}}
{{ ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "spanfuse.serviceAccountName" -}}
{{ default (ternary (include "spanfuse.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{/* What tells the pods of a component: dict "root" $ "component" "worker". */}}
{{- define "spanfuse.selector" -}}
app.kubernetes.io/name: {{ include "spanfuse.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "spanfuse.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "spanfuse.selector" . }}
app.kubernetes.io/version: {{ default .root.Chart.AppVersion .root.Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: spanfuse
{{- end }}

{{/* The configuration file, once what cannot work in a cluster is refused. */}}
{{- define "spanfuse.config" -}}
{{- $config := .Values.config -}}
{{- $kafka := required "config.receivers.kafka is what workers read" (dig "receivers" "kafka" dict $config) -}}
{{- $partitions := int (default 8 $kafka.partitions) -}}
{{- $worker := .Values.worker -}}
{{- $most := int (ternary $worker.replicas (default $partitions $worker.autoscaling.maxReplicas) (eq $worker.autoscaling.by "none")) -}}
{{- if gt $most $partitions -}}
{{- fail (printf "%d workers for %d partitions: the others would be idle; see docs/sizing.md" $most $partitions) -}}
{{- end -}}
{{- if regexMatch "^(127[.]|localhost:|\\[::1\\])" (dig "extensions" "api" "endpoint" "127." $config) -}}
{{- fail "config.extensions.api.endpoint is on loopback: no other pod would reach the API; set 0.0.0.0:8787" -}}
{{- end -}}
{{- if regexMatch "^(127[.]|localhost:|\\[::1\\])" (dig "service" "telemetry" "metrics" "endpoint" "127." $config) -}}
{{- fail "config.service.telemetry.metrics.endpoint is on loopback: the kubelet's probes would not reach it; set 0.0.0.0:9464" -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{- define "spanfuse.apiPort" -}}
{{ regexFind "[0-9]+$" .Values.config.extensions.api.endpoint }}
{{- end }}

{{- define "spanfuse.metricsPort" -}}
{{ regexFind "[0-9]+$" .Values.config.service.telemetry.metrics.endpoint }}
{{- end }}

{{/* Ports of the receiver that workers may have, by name. */}}
{{- define "spanfuse.otlpPorts" -}}
{{- if hasKey .Values.config.receivers "otlp" -}}
{{- $protocols := dig "protocols" (dict "http" dict "grpc" dict) (default dict .Values.config.receivers.otlp) -}}
{{- if hasKey $protocols "grpc" }}
otlp-grpc: {{ regexFind "[0-9]+$" (dig "grpc" "endpoint" ":4317" $protocols) }}
{{- end }}
{{- if hasKey $protocols "http" }}
otlp-http: {{ regexFind "[0-9]+$" (dig "http" "endpoint" ":4318" $protocols) }}
{{- end }}
{{- end -}}
{{- end }}

{{/* What all containers have: dict "root" $ "env" list. */}}
{{- define "spanfuse.container" -}}
image: "{{ .root.Values.image.repository }}:{{ default .root.Chart.AppVersion .root.Values.image.tag }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
envFrom:
  - secretRef: {name: {{ .root.Values.existingSecret }}}
{{- with .env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: config, mountPath: /etc/spanfuse/spanfuse.yaml, subPath: spanfuse.yaml, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if .root.Values.tlsSecret }}
  - {name: tls, mountPath: /etc/spanfuse/tls, readOnly: true}
  {{- end }}
{{- end }}

{{/* What all pods have: dict "root" $ "config" name of the ConfigMap. */}}
{{- define "spanfuse.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
volumes:
  - {name: config, configMap: {name: {{ .config }}}}
  - {name: tmp, emptyDir: {}}
  {{- if .root.Values.tlsSecret }}
  - {name: tls, secret: {secretName: {{ .root.Values.tlsSecret }}}}
  {{- end }}
{{- end }}

{{/* Where the pods of a component go: dict "root" $ "component" "worker" "values" .Values.worker. */}}
{{- define "spanfuse.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
  {{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "spanfuse.selector" . | nindent 8 }}
  {{- end }}
{{- end }}

{{/* Where pods may connect to: a list of TCP ports, and DNS. */}}
{{- define "spanfuse.egress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- ports:
    {{- range . }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{/* Each change of their number stops all workers for a rebalance: up by one step, down late and one by one. */}}
{{- define "spanfuse.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 60
  policies: [{type: Percent, value: 100, periodSeconds: 120}]
scaleDown:
  stabilizationWindowSeconds: 900
  policies: [{type: Pods, value: 1, periodSeconds: 300}]
{{- end }}

{{/* The TCP ports that pods connect to, a list: those of Kafka and Redis that stand in the configuration, and egressPorts. */}}
{{- define "spanfuse.ports" -}}
{{- $ports := .Values.networkPolicy.egressPorts | toStrings }}
{{- $unknown := list }}
{{- range splitList "," .Values.config.receivers.kafka.brokers }}
{{- with regexFind "[0-9]+$" (trim .) }}
{{- $ports = append $ports . }}
{{- else }}
{{- $unknown = append $unknown "config.receivers.kafka.brokers" }}
{{- end }}
{{- end }}
{{- range $extension := list "readmodel" "ledger" }}
{{- with dig "extensions" $extension "address" "" $.Values.config }}
{{- if regexMatch "^rediss?://" . }}
{{- $host := regexReplaceAll "^rediss?://([^@/]*@)?" . "" }}
{{- $ports = append $ports (default "6379" (regexFind "[0-9]+$" (regexFind "^[^/?]*:[0-9]+" $host))) }}
{{- else }}
{{- $unknown = append $unknown (printf "config.extensions.%s.address" $extension) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $unknown (not .Values.networkPolicy.egressPorts) }}
{{- fail (printf "the port of %s is not known here: name it in networkPolicy.egressPorts" (first $unknown)) }}
{{- end }}
{{- range $ports | uniq | sortAlpha }}
- {{ . }}
{{- end }}
{{- end }}
