// Receivers of records in the configuration of a log.

interface CommonConfig {
  /** Names its file of positions and its messages: letters, digits and hyphens. */
  readonly name: string
  /** `ocsf`: API Activity of the Open Cybersecurity Schema Framework. `record`: the record itself. */
  readonly format: 'ocsf' | 'record'
  /** The first day that is exported, `YYYY-MM-DD`; absent: the oldest of the log. */
  readonly since?: string | undefined
  /** Time limit of each attempt to send, milliseconds. */
  readonly timeoutMs: number
  /** How long records may wait before the export counts as behind, milliseconds. */
  readonly maxDelayMs: number
}

export interface OtlpConfig extends CommonConfig {
  readonly type: 'otlp'
  readonly url: string
}

export interface SyslogConfig extends CommonConfig {
  readonly type: 'syslog'
  /** `tls://HOST:PORT`, or `tcp://` on a loopback address. */
  readonly url: string
  /** The name in the receiver's certificate; default: the host of `url`. */
  readonly serverName?: string | undefined
}

export interface FileConfig extends CommonConfig {
  readonly type: 'file'
  readonly path: string
  /** Size at which the file is renamed. */
  readonly maxBytes: number
  /** Renamed files that are kept. */
  readonly files: number
}

export type ReceiverConfig = OtlpConfig | SyslogConfig | FileConfig

/** Read for each connection, so that a rotated secret is used. All but the header are PEM. */
export interface ReceiverSecrets {
  /** The whole `Authorization` header. */
  readonly authorization?: string
  /** The authorities that may have issued the receiver's certificate, in place of those of Node. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

export interface ExportConfig {
  readonly receiver: ReceiverConfig
  secrets?(): Promise<ReceiverSecrets>
}
