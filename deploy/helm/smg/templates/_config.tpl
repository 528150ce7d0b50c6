{{- /* A map of labels as the list of key=value that the options take. */ -}}
{{- define "smg.pairs" -}}
{{- $pairs := list }}
{{- range $key, $value := . }}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}
{{- end }}
{{- toYaml $pairs }}
{{- end }}

{{- /* What the chart's values decide, as options; these win over .Values.config. */ -}}
{{- define "smg.ownConfig" -}}
port: {{ .Values.ports.http }}
health_check_port: {{ .Values.ports.health }}
prometheus_port: {{ .Values.ports.metrics }}
shutdown_grace_period_secs: {{ .Values.drain.gracePeriodSecs }}
{{- if .Values.tls.secretName }}
tls_cert_path: /etc/smg/tls/tls.crt
tls_key_path: /etc/smg/tls/tls.key
{{- end }}
{{- if eq .Values.mode "sidecar" }}
worker_urls: ["http://127.0.0.1:{{ .Values.engine.port }}"]
{{- end }}
{{- with .Values.discovery }}
{{- if .enabled }}
discovery_provider: kubernetes
service_discovery_port: {{ .port }}
{{- if not .allNamespaces }}
service_discovery_namespace: {{ include "smg.discoveryNamespace" $ | quote }}
{{- end }}
{{- if .selector }}
selector: {{- include "smg.pairs" .selector | nindent 2 }}
{{- end }}
{{- if .prefillSelector }}
prefill_selector: {{- include "smg.pairs" .prefillSelector | nindent 2 }}
{{- end }}
{{- if .decodeSelector }}
decode_selector: {{- include "smg.pairs" .decodeSelector | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.priorityScheduler }}
priority_scheduler_enabled: true
priority_scheduler_config: /etc/smg/config/priority-scheduler.yaml
{{- end }}
{{- if .Values.tenantLimits }}
tenant_rate_limit_enabled: true
tenant_rate_limit_config: /etc/smg/config/tenant-limits.yaml
{{- end }}
{{- end }}

{{- /* The whole file of --config. An option is either in .Values.config or decided by another value. */ -}}
{{- define "smg.config" -}}
{{- $own := include "smg.ownConfig" . | fromYaml }}
{{- $secret := list "api_key" "tenant_api_key" "control_plane_api_keys" "state_redis_url" "redis_url" "postgres_db_url" }}
{{- range $given, $_ := .Values.config }}
{{- $name := $given | replace "-" "_" }}
{{- if has $name $secret }}
{{- fail (printf "config.%s is a secret: put it into a Secret that secretEnv.SMG_%s names" $given (upper $name)) }}
{{- end }}
{{- if hasKey $own $name }}
{{- fail (printf "config.%s: another value of the chart decides it; see its values.yaml" $given) }}
{{- end }}
{{- end }}
{{- merge $own .Values.config | toYaml }}
{{- end }}

{{- define "smg.files" -}}
smg.yaml: |
  {{- include "smg.config" . | nindent 2 }}
{{- with .Values.priorityScheduler }}
priority-scheduler.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tenantLimits }}
tenant-limits.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
