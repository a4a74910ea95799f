// A receiver of records. One call of `send` is one transaction: it resolves once the receiver has all of the records.

import type { SignedEnvelope } from '../format/envelope.js'
import { toOcsf } from '../format/ocsf.js'
import type { ReceiverConfig, ReceiverSecrets } from './config.js'

export interface ExportedRecord {
  readonly record: SignedEnvelope
  /** In the format of the receiver. */
  readonly content: object
}

export interface Receiver {
  /**
   * No records: checks that the receiver can be reached and accepts the credentials. After a rejection the receiver may
   * have some of the records.
   *
   * @throws {ExportError}
   */
  send(records: readonly ExportedRecord[], signal: AbortSignal): Promise<void>
}

export async function openReceiver(
  config: ReceiverConfig,
  secrets: () => Promise<ReceiverSecrets>,
): Promise<Receiver> {
  switch (config.type) {
    case 'otlp':
      return new (await import('./otlp.js')).OtlpReceiver(config, secrets)
    case 'syslog':
      return new (await import('./syslog.js')).SyslogReceiver(config, secrets)
    case 'file':
      return new (await import('./file.js')).FileReceiver(config)
  }
}

export function exported(record: SignedEnvelope, format: ReceiverConfig['format']): ExportedRecord {
  return { record, content: format === 'ocsf' ? toOcsf(record) : record }
}
