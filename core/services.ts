// What stages offer the gateway outside any call, for its listeners.
import type { IncomingHttpHeaders } from 'node:http'
import type { EscalationDesk } from './escalation.js'
import type { DescribeResource } from './protected-resource.js'
import type { Identity } from './slots.js'
import { token } from './tokens.js'

/**
 * Tells who sends a request that is no call, by the same rules as a call's.
 *
 * @throws {Refusal} `UNAUTHENTICATED`, `UNAUTHORIZED_TENANT` or `STORE_UNAVAILABLE`
 */
export type Identify = (headers: IncomingHttpHeaders) => Promise<Identity>

export const services = {
  identify: token<Identify>('Identify'),
  escalations: token<EscalationDesk>('EscalationDesk'),
  describeResource: token<DescribeResource>('DescribeResource'),
} as const
