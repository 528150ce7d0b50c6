{{- define "smg.container" -}}
name: smg
image: "{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [launch, --config=/etc/smg/config/smg.yaml]
{{- if or .Values.secretEnv .Values.extraEnv }}
env:
  {{- range $name, $from := .Values.secretEnv }}
  - name: {{ $name }}
    valueFrom:
      secretKeyRef: {{- toYaml $from | nindent 8 }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  - {name: {{ include "smg.portName" . }}, containerPort: {{ .Values.ports.http }}}
  - {name: health, containerPort: {{ .Values.ports.health }}}
  - {name: metrics, containerPort: {{ .Values.ports.metrics }}}
startupProbe:
  httpGet: {path: /liveness, port: health}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /liveness, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readiness, port: health}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- if .Values.drain.preStopSleepSecs }}
lifecycle:
  preStop:
    sleep: {seconds: {{ .Values.drain.preStopSleepSecs }}}
{{- end }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/smg/config, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.tls.secretName }}
  - {name: tls, mountPath: /etc/smg/tls, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Both containers get SIGTERM at once. The engine's waits here until the gateway has ended. */ -}}
{{- define "smg.engine" -}}
name: engine
image: {{ required "engine.image is needed in the sidecar mode" .Values.engine.image | quote }}
{{- with .Values.engine.command }}
command: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.engine.args }}
args: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.engine.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - {name: engine, containerPort: {{ .Values.engine.port }}}
lifecycle:
  preStop:
    {{- if .Values.engine.preStop }}
    {{- toYaml .Values.engine.preStop | nindent 4 }}
    {{- else }}
    exec:
      command:
        - {{ .Values.engine.python | quote }}
        - -c
        - |
          import socket, time
          while socket.socket().connect_ex(("127.0.0.1", {{ .Values.ports.health }})) == 0:
              time.sleep(0.5)
    {{- end }}
{{- with .Values.engine.securityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
resources: {{- toYaml .Values.engine.resources | nindent 2 }}
{{- with .Values.engine.volumeMounts }}
volumeMounts: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
