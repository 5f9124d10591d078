{{- /* Names and labels. A component is a dict of root (the chart's context), name, role and values. */ -}}

{{- define "uis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "uis.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "uis.labels" -}}
{{ include "uis.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "uis.componentName" -}}
{{- printf "%s-%s" (include "uis.fullname" .root) .name -}}
{{- end -}}

{{- define "uis.componentSelector" -}}
{{ include "uis.selector" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "uis.componentLabels" -}}
{{ include "uis.labels" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "uis.serviceAccount" -}}
{{- $created := .Values.serviceAccount.create | ternary (include "uis.fullname" .) "default" -}}
{{- default $created .Values.serviceAccount.name -}}
{{- end -}}

{{- /* The components of the form, as YAML: their names by role. The first one serves clients. */ -}}
{{- define "uis.components" -}}
{{- if eq .Values.form "all-in-one" -}}
- { name: all-in-one, role: all, values: allInOne, isEntry: true }
{{- else -}}
- { name: gateway, role: gateway, values: gateway, isEntry: true }
- { name: core, role: core, values: core, isEntry: false }
{{- end -}}
{{- end -}}

{{- define "uis.entryName" -}}
{{- eq .Values.form "all-in-one" | ternary "all-in-one" "gateway" -}}
{{- end -}}
