// Notices to webhooks about events that an operator should know at once.
import type { JsonValue } from '../json/value.js'

export const noticeTypes = [
  'escalation.opened',
  'escalation.reminder',
  'escalation.second_set',
  'escalation.decided',
  'escalation.emergency',
  'escalation.review_open',
  'escalation.reviewed',
  'audit.unwritable',
  'audit.upload_behind',
  'audit.tampered',
  'policy.reloaded',
  'policy.refused',
  'block.set',
  'block.lifted',
  'block.expired',
  'ap2.denied',
  'definition.changed',
  'definition.accepted',
] as const

type NoticeType = (typeof noticeTypes)[number]

export interface Notice {
  readonly type: NoticeType
  /** Facts for the receiver; no secret and no arguments of calls. */
  readonly data: Readonly<Record<string, JsonValue>>
}

export interface Notices {
  /**
   * Queues a notice for the webhooks that the policy subscribes to its type, and for `url` if it is given. Does not
   * throw and does not wait: delivery is retried in the background.
   */
  send(notice: Notice, url?: string): void
}
