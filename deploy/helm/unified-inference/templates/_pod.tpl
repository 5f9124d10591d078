{{- /* Secrets as files, which are in no process list or crash report: a list of name, key, file and the variable of the file. */ -}}
{{- define "uis.secretFiles" -}}
{{- $files := list -}}
{{- $secrets := .root.Values.secrets -}}
{{- range list (list "masterKey" "master-key" "UIS_MASTER_KEY_FILE") (list "redisUrl" "redis-url" "REDIS_URL_FILE") (list "adminToken" "admin-token" "UIS_ADMIN_TOKEN_FILE") (list "bootstrapApiKey" "bootstrap-api-key" "UIS_BOOTSTRAP_API_KEY_FILE") -}}
{{- $secret := index $secrets (index . 0) -}}
{{- if $secret.name -}}
{{- $files = append $files (dict "name" $secret.name "key" $secret.key "file" (index . 1) "variable" (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- if ne .role "all" -}}
{{- $files = append $files (dict "name" $secrets.coreToken.name "key" $secrets.coreToken.key "file" "core-token" "variable" "UIS_CORE_TOKEN_FILE") -}}
{{- end -}}
{{- if .root.Values.ops.expose -}}
{{- $files = append $files (dict "name" $secrets.opsToken.name "key" $secrets.opsToken.key "file" "ops-token") -}}
{{- end -}}
{{- if ne .role "gateway" -}}
{{- range $secrets.upstreamKeys -}}
{{- $variable := printf "UIS_UPSTREAM_%s_KEY_FILE" (regexReplaceAll "[^A-Z0-9]" (upper .upstream) "_") -}}
{{- $files = append $files (dict "name" .name "key" .key "file" (printf "upstream-%s" .upstream) "variable" $variable) -}}
{{- end -}}
{{- end -}}
{{- $files | toYaml -}}
{{- end -}}

{{- /* The pod of one component. */ -}}
{{- define "uis.pod" -}}
{{- $values := .root.Values -}}
{{- $secretFiles := include "uis.secretFiles" . | fromYamlArray -}}
{{- $usesTls := and .isEntry $values.tls.secretName -}}
{{- $usesCoreTls := and (ne .role "all") $values.coreTls.secretName -}}
metadata:
  labels:
    {{- include "uis.componentLabels" . | nindent 4 }}
  annotations:
    # A changed configuration replaces the pods.
    checksum/config: {{ include "uis.config" . | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "uis.serviceAccount" .root }}
  automountServiceAccountToken: false
  # Variables of Services, such as UIS_GRPC_PORT of a Service uis-grpc, would be read as settings.
  enableServiceLinks: false
  # preStop, server.drain_delay and limits.drain, then 20 s in which aborted requests end and their usage is stored.
  terminationGracePeriodSeconds: {{ add $values.drain.preStopSeconds $values.drain.delaySeconds $values.drain.maxSeconds 20 }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- $component := . }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels:
          {{- include "uis.componentSelector" $component | nindent 10 }}
    {{- end }}
  containers:
    - name: uis
      {{- $tag := default .root.Chart.AppVersion $values.image.tag }}
      image: {{ empty $values.image.digest | ternary (printf "%s:%s" $values.image.repository $tag) (printf "%s@%s" $values.image.repository $values.image.digest) | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [serve, --config, /etc/uis/uis.yaml]
      env:
        - { name: UIS_DATA_DIR, value: /data/uis }
        {{- range $secretFiles }}
        {{- if .variable }}
        - { name: {{ .variable }}, value: /run/secrets/uis/{{ .file }} }
        {{- end }}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
        - { name: grpc, containerPort: 50051 }
        {{- if $values.ops.expose }}
        - { name: ops, containerPort: 9464 }
        {{- end }}
      {{- include "uis.probes" . | nindent 6 }}
      lifecycle:
        preStop:
          sleep: { seconds: {{ $values.drain.preStopSeconds }} }
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: config, mountPath: /etc/uis, readOnly: true }
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
        {{- if $secretFiles }}
        - { name: secrets, mountPath: /run/secrets/uis, readOnly: true }
        {{- end }}
        {{- if $usesCoreTls }}
        - { name: core-tls, mountPath: /run/secrets/uis-core-tls, readOnly: true }
        {{- end }}
        {{- if $usesTls }}
        - { name: tls, mountPath: /run/secrets/uis-tls, readOnly: true }
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "uis.componentName" . }} }
    - name: data
      {{- if $values.secrets.redisUrl.name }}
      emptyDir: { sizeLimit: {{ $values.data.temporarySize }} }
      {{- else }}
      persistentVolumeClaim: { claimName: {{ default (include "uis.fullname" .root) $values.data.existingClaim }} }
      {{- end }}
    - name: tmp
      emptyDir: { sizeLimit: 1Gi }
    {{- if $secretFiles }}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range $secretFiles }}
          - secret: { name: {{ .name }}, items: [{ key: {{ .key }}, path: {{ .file }} }] }
          {{- end }}
    {{- end }}
    {{- if $usesCoreTls }}
    - name: core-tls
      secret: { secretName: {{ $values.coreTls.secretName }}, defaultMode: 0440 }
    {{- end }}
    {{- if $usesTls }}
    - name: tls
      secret: { secretName: {{ $values.tls.secretName }}, defaultMode: 0440 }
    {{- end }}
{{- end -}}

{{- /* Probes of the HTTP listener, which a core has, too. */ -}}
{{- define "uis.probes" -}}
{{- $scheme := and .isEntry .root.Values.tls.secretName | empty | ternary "HTTP" "HTTPS" -}}
{{- $headers := "httpHeaders: [{ name: Host, value: localhost }]" -}}
startupProbe:
  httpGet: { path: /livez, port: http, scheme: {{ $scheme }}, {{ $headers }} }
  periodSeconds: 2
  failureThreshold: 60
readinessProbe:
  httpGet: { path: /ready, port: http, scheme: {{ $scheme }}, {{ $headers }} }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: { path: /livez, port: http, scheme: {{ $scheme }}, {{ $headers }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}
