{{- /* The part of uis.yaml that the chart decides, for one component. */ -}}
{{- define "uis.ownConfig" -}}
server:
  host: 0.0.0.0
  port: 8080
  grpc_port: 50051
  ops_port: 9464
  ops_host: {{ .root.Values.ops.expose | ternary "0.0.0.0" "127.0.0.1" }}
  ops_token_file: {{ .root.Values.ops.expose | ternary "/run/secrets/uis/ops-token" nil | toJson }}
  role: {{ .role }}
  {{- if ne (toString .values.workers) "1" }}
  workers: {{ .values.workers }}
  {{- end }}
  drain_delay: {{ .root.Values.drain.delaySeconds }}s
  {{- if and .isEntry .root.Values.tls.secretName }}
  tls:
    cert_file: /run/secrets/uis-tls/tls.crt
    key_file: /run/secrets/uis-tls/tls.key
  {{- end }}
{{- if ne .role "all" }}
core:
  {{- if eq .role "gateway" }}
  addresses:
    - dns:///{{ include "uis.fullname" .root }}-core.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}:50051
  {{- end }}
  {{- if .root.Values.coreTls.secretName }}
  tls:
    ca_file: /run/secrets/uis-core-tls/ca.crt
    cert_file: /run/secrets/uis-core-tls/tls.crt
    key_file: /run/secrets/uis-core-tls/tls.key
  {{- end }}
{{- end }}
limits:
  drain: {{ .root.Values.drain.maxSeconds }}s
{{- end -}}

{{- /* uis.yaml of one component: the values `config` and `gatewayConfig` with the part above. */ -}}
{{- define "uis.config" -}}
{{- $given := deepCopy .root.Values.config -}}
{{- if eq .role "gateway" -}}
{{- $given = mergeOverwrite (omit $given "models" "upstreams" "engine") (deepCopy .root.Values.gatewayConfig) -}}
{{- end -}}
{{- $whole := mergeOverwrite $given (include "uis.ownConfig" . | fromYaml) -}}
{{- with $whole.server.allowed_hosts -}}
{{- /* The host of the probes. */ -}}
{{- $_ := set $whole.server "allowed_hosts" (append . "localhost" | uniq) -}}
{{- end -}}
{{- $whole | toYaml -}}
{{- end -}}

{{- /* Refuses values that contradict each other; each message names the values. */ -}}
{{- define "uis.checkValues" -}}
{{- $values := .Values -}}
{{- if not $values.image.repository -}}
{{- fail "image.repository is empty: build the image with deploy/docker/Dockerfile, push it to your registry and set its name" -}}
{{- end -}}
{{- if and $values.secrets.redisUrl.name (not $values.secrets.masterKey.name) -}}
{{- fail "secrets.redisUrl needs secrets.masterKey.name: all pods must encrypt with the same key" -}}
{{- end -}}
{{- if eq $values.form "gateway-core" -}}
{{- if ne (toString $values.core.workers) "1" -}}
{{- fail "core.workers must be 1: a core is one process. Set core.replicas, and gateway.workers" -}}
{{- end -}}
{{- range list "redisUrl" "coreToken" -}}
{{- if not (index $values.secrets . "name") -}}
{{- fail (printf "form gateway-core needs secrets.%s.name" .) -}}
{{- end -}}
{{- end -}}
{{- else if not $values.secrets.redisUrl.name -}}
{{- if or (ne (toString $values.allInOne.replicas) "1") (ne (toString $values.allInOne.workers) "1") $values.allInOne.autoscaling.enabled -}}
{{- fail "more than one process needs secrets.redisUrl: set allInOne.replicas and allInOne.workers to 1 and allInOne.autoscaling.enabled to false, or set the Secret" -}}
{{- end -}}
{{- end -}}
{{- if and $values.ops.expose (not $values.secrets.opsToken.name) -}}
{{- fail "ops.expose needs secrets.opsToken.name: metrics are not served to the network without a token" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.ops.expose) -}}
{{- fail "serviceMonitor.enabled needs ops.expose: Prometheus cannot reach the metrics otherwise" -}}
{{- end -}}
{{- range $name, $given := dict "config" $values.config "gatewayConfig" $values.gatewayConfig -}}
{{- range $path, $instead := dict "server.host" "service" "server.port" "service.port" "server.grpc_port" "service" "server.ops_port" "ops" "server.ops_host" "ops.expose" "server.ops_token_file" "secrets.opsToken" "server.role" "form" "server.workers" "workers of the component" "server.drain_delay" "drain.delaySeconds" "server.tls" "tls.secretName" "limits.drain" "drain.maxSeconds" "core.addresses" "form" "core.token" "secrets.coreToken" "core.tls" "coreTls.secretName" "state.redis_url" "secrets.redisUrl" -}}
{{- $parts := splitList "." $path -}}
{{- $group := index $given (first $parts) -}}
{{- if and (kindIs "map" $group) (hasKey $group (last $parts)) -}}
{{- fail (printf "%s.%s is set by the chart: use the value %s" $name $path $instead) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $given "data_dir" -}}
{{- fail (printf "%s.data_dir is set by the chart: use the values below data" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
