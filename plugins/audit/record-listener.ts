// A listener that code may bind to see records as they are written, such as a terminal.
import { token } from '@svc/core'
import type { AuditEnvelope } from './log/format/envelope.js'

/** Called after each record of a call or an event is durable. It must not throw or change the record. */
export type RecordListener = (record: AuditEnvelope) => void

export const recordListener = token<RecordListener>('audit/RecordListener')
