// The operation that returns the state of the gateway, as the header of each page shows it.
import { policyTokens, resolve, resolveOptional, services, tokens } from '@svc/core'
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
  pending: z.int().describe('Escalations that wait, of those that you may see.'),
  pending_more: z.boolean().describe('Whether there are more.'),
  at: z.iso.datetime().describe('The time of the gateway.'),
})

export type StatusJson = z.output<typeof statusSchema>

const maxCounted = 500

export const statusOperation = operation({
  method: 'GET',
  path: '/api/status',
  name: 'show_status',
  summary: 'Returns the state of the gateway: its policy, its log, what waits.',
  access: 'reader',
  isUnrecorded: true,
  response: statusSchema,
  run: (request) => gatewayStatus(request),
})

export async function gatewayStatus(request: OperationRequest): Promise<StatusJson> {
  const { container } = request.policy
  const log = resolveOptional(container, tokens.SvcAppender)?.status?.()
  const { writable = true, error, warning } = log ?? {}
  const reason = error?.message ?? warning
  const list = { status: 'pending', tenant: undefined, limit: maxCounted } as const
  const pending = await escalationsOf(request)?.list(list)
  const { gateway = '', policySha256 = null } = resolveOptional(container, services.auditLog) ?? {}
  return {
    gateway,
    mode: resolveOptional(container, policyTokens.denyRule)?.mode ?? 'enforce',
    policy_sha256: policySha256,
    log: {
      state: writable ? (warning === undefined ? 'ok' : 'warning') : 'not_writable',
      ...(reason === undefined ? {} : { reason }),
    },
    pending: pending?.escalations.length ?? 0,
    pending_more: pending?.more ?? false,
    at: new Date(resolve(container, tokens.Clock).now()).toISOString(),
  }
}
