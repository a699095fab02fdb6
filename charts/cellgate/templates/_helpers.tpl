{{- define "cellgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{/* A name within a length: what is longer keeps its beginning, and a hash tells it from others. */}}
{{- define "cellgate.short" -}}
{{- $length := index . 0 -}}{{- $name := index . 1 -}}
{{- if le (len $name) $length -}}{{ $name }}{{- else -}}
{{- printf "%s-%s" ($name | trunc (int (sub $length 9)) | trimSuffix "-" | trimSuffix ".") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{- define "cellgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains (include "cellgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "cellgate.name" .) | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cellgate.selector" -}}
app.kubernetes.io/name: {{ include "cellgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cellgate.labels" -}}
{{ include "cellgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Where the sandboxes are: apart from the gateway, so that its rights end where they do. */}}
{{- define "cellgate.sandboxes" -}}
{{- $name := include "cellgate.fullname" . -}}
{{- $own := ternary $name (printf "%s-%s" .Release.Namespace $name) (eq $name .Release.Namespace) -}}
{{- default (include "cellgate.short" (list 63 (printf "%s-sandboxes" $own))) .Values.sandboxes.namespace -}}
{{- end -}}

{{/* Whose they are: another release's sandboxes in the same namespace are not even looked at. */}}
{{- define "cellgate.gateway" -}}
{{- include "cellgate.short" (list 63 (printf "%s.%s" .Release.Namespace .Release.Name)) -}}
{{- end -}}

{{- define "cellgate.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "cellgate.authSecret" -}}
{{- default (printf "%s-auth" (include "cellgate.fullname" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- define "cellgate.masterKeySecret" -}}
{{- default (printf "%s-master-key" (include "cellgate.fullname" .)) .Values.masterKey.existingSecret -}}
{{- end -}}

{{/* The names by which clients may call it. */}}
{{- define "cellgate.hosts" -}}
{{- $name := include "cellgate.fullname" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- if .Values.httpRoute.enabled }}{{ $hosts = concat $hosts .Values.httpRoute.hostnames }}{{ end -}}
{{- join "," $hosts -}}
{{- end -}}

{{/* What "restricted" Pod Security asks of a container, and a read-only root. */}}
{{- define "cellgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "cellgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The settings that every command of the gateway's image needs. */}}
{{- define "cellgate.environment" -}}
- name: CELLGATE_CONFIG
  value: /etc/cellgate/cellgate.toml
- name: CELLGATE_DATA_DIR
  value: /data
- name: CELLGATE_LISTEN
  value: 0.0.0.0:{{ .Values.service.port }}
{{- end -}}
