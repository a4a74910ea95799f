// The operation that returns the state of the gateway, as the header of each page shows it.

import { policyTokens, resolve, resolveOptional, services, tokens } from '@svc/core'
import { defined } from '@svc/core/json'
import { z } from 'zod'
import { type OperationRequest, operation } from '../admin/operation.js'
import { escalationsOf } from '../escalations/operations.js'

export const statusSchema = z.object({
  gateway: z.string().describe('<name>@<version>, as in records.'),
  mode: z.enum(['observe', 'enforce']),
  policy_sha256: z.string().nullable(),
  log: z.object({
    state: z.enum(['ok', 'warning', 'not_writable']),
    reason: z.string().optional(),
  }),
  pending: z
    .int()
    .describe(
      'Escalations that wait for votes, of those that you may see; emergency calls with an open review count.',
    ),
  pending_more: z.boolean().describe('Whether there may be more.'),
  at: z.iso.datetime().describe('The time of the gateway.'),
})

export type StatusJson = z.output<typeof statusSchema>

/** Escalations that are counted, and watched for changes, at most. */
export const maxCounted = 2000

export const statusOperation = operation({
  method: 'GET',
  path: '/api/status',
  name: 'show_status',
  summary: 'Returns the state of the gateway: its policy, its log, what waits.',
  access: 'reader',
  isUnrecorded: true,
  response: statusSchema,
  run: async (request) => gatewayStatus(request, await escalationsOf(request)?.waiting(maxCounted)),
})

/** `waiting`: undefined if the policy in force escalates nothing. */
export async function gatewayStatus(
  request: OperationRequest,
  waiting: { readonly found: readonly unknown[]; readonly next: string | undefined } | undefined,
): Promise<StatusJson> {
  const { container } = request.policy
  const log = resolveOptional(container, tokens.SvcAppender)?.status?.()
  const { writable = true, error, warning } = log ?? {}
  const reason = error?.message ?? warning
  const { gateway = '', policySha256 = null } = resolveOptional(container, services.auditLog) ?? {}
  return {
    gateway,
    mode: resolveOptional(container, policyTokens.denyRule)?.mode ?? 'enforce',
    policy_sha256: policySha256,
    log: {
      state: writable ? (warning === undefined ? 'ok' : 'warning') : 'not_writable',
      ...defined({ reason }),
    },
    pending: waiting?.found.length ?? 0,
    pending_more: waiting?.next !== undefined,
    at: new Date(resolve(container, tokens.Clock).now()).toISOString(),
  }
}
