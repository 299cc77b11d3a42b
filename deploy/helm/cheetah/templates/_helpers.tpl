{{- define "cheetah.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "%s-cuda" .Chart.AppVersion) }}
{{- end }}
{{- define "cheetah.labels" -}}
app.kubernetes.io/part-of: cheetah
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "cheetah.url" -}}
{{- if .Values.services.url -}}
{{ .Values.services.url }}
{{- else -}}
etcd+tls://cheetah@etcd-0.etcd,etcd-1.etcd,etcd-2.etcd,nats+tls://cheetah@nats-0.nats,nats-1.nats,nats-2.nats?cluster={{ .Values.cluster.name }}&queue_replicas=3&ca=/etc/cheetah-services/ca.pem&password_file=/etc/cheetah-services/etcd-password&nats_password_file=/etc/cheetah-services/nats-password
{{- end -}}
{{- end }}
{{- define "cheetah.podSecurity" -}}
{runAsNonRoot: true, runAsUser: {{ .user }}, fsGroup: {{ .user }}, seccompProfile: {type: RuntimeDefault}}
{{- end }}
{{- define "cheetah.containerSecurity" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
