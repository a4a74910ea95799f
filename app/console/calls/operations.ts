// The operations of the admin API on the calls of the log, as the console shows them.

import { policyTokens, Refusal, resolveOptional, services, sideEffectsOf } from '@svc/core'
import { defined } from '@svc/core/json'
import { escalationService } from '@svc/plugin-enforcement'
import { z } from 'zod'
import { type Operation, type OperationRequest, operation } from '../../admin/operation.js'
import { requireEscalations } from '../../escalations/operations.js'
import { withStoreRefusal } from '../../escalations/reviewer-escalations.js'
import type { ReadServers } from '../policy-operations.js'
import type { KnownServer } from '../server-tools.js'
import { callRowSchema } from './call-row.js'

const MAX_LISTED = 500

/** An entry of a policy, with its text. */
export const ruleSchema = z.object({
  line: z.int(),
  path: z.string().describe('Its keys in the policy, such as rules[2].'),
  lines: z.array(z.string()),
})

const contextSchema = z.object({
  rule: ruleSchema
    .optional()
    .describe('The entry of the policy that escalated the call; absent if the policy is not kept.'),
  vote_refusal: z.string().optional().describe('Why you may not vote; absent if you may.'),
  agent_reason: z.string().optional().describe('The reason that the agent states; nothing verifies it.'),
  severity_reason: z.string().optional().describe('Where the severity of the escalation is from.'),
  caller_calls: z.array(callRowSchema),
  tool_calls: z.array(callRowSchema),
  outcome: callRowSchema.optional().describe('The call that used the approval, once it has ended.'),
})

export type ContextJson = z.output<typeof contextSchema>

const callsSchema = z.object({
  calls: z.array(callRowSchema),
  first_call: z
    .object({
      url: z.string(),
      needs_token: z.boolean(),
      by: z
        .enum(['listed_tool', 'mcp_client', 'unknown_tool'])
        .describe(
          'A call of a tool that the server lists; a client of MCP, if the target is not written as an MCP server; or a tool whose name has to be put in.',
        ),
    })
    .optional()
    .describe('For a log without calls: a URL for a first one.'),
})

export type CallsJson = z.output<typeof callsSchema>

/** `url` is that for callers of the gateway. */
export const callOperations = (url: () => Promise<string>, serversOf: ReadServers): Operation[] => [
  operation({
    method: 'GET',
    path: '/api/calls',
    name: 'list_calls',
    summary: 'Lists the newest calls of the log, the newest first.',
    access: 'reader',
    query: z.strictObject({
      limit: z
        .string()
        .regex(/^[1-9]\d{0,2}$/, `expected 1 to ${MAX_LISTED}`)
        .default('100')
        .transform(Number)
        .refine((limit) => limit <= MAX_LISTED, `expected 1 to ${MAX_LISTED}`),
      trace: z.string().optional(),
    }),
    response: callsSchema,
    async run(request): Promise<CallsJson> {
      const {
        access,
        policy,
        query: { limit, trace },
      } = request
      const dir = logDirectoryOf(policy)
      if (dir === undefined) return { calls: [] }
      const { findCalls, maySee } = await import('./find-calls.js')
      if (!access.readsAll && access.tenant === undefined)
        throw new Refusal('TOOL_NOT_ALLOWED', 'Calls are for operator, auditor and reviewer of admin.roles.')
      const calls = await findCalls(
        dir,
        (row) =>
          row.kind === 'call' && maySee(access, row) && (trace === undefined || row.trace_id === trace),
        limit,
      )
      if (calls.length > 0 || trace !== undefined) return { calls }
      const needsToken = resolveOptional(policy.container, policyTokens.needsToken) !== false
      return {
        calls,
        first_call: { ...firstCall(await url(), await serversOf(request)), needs_token: needsToken },
      }
    },
  }),
  operation({
    method: 'GET',
    path: '/api/escalations/:id/context',
    name: 'show_context',
    idOf: 'escalation',
    summary:
      'Returns what the log has around an escalation: why it was opened, what else was called, how it ended.',
    access: 'reader',
    response: contextSchema,
    async run(request): Promise<ContextJson> {
      const { id = '' } = request
      // A client that sees only outlines does not see other calls.
      const whole = await requireEscalations(request).whole(id)
      const service = resolveOptional(request.policy.container, escalationService)
      const standing = await withStoreRefusal(
        () => service?.standing(id, request.client) ?? Promise.resolve(undefined),
      )
      const { agentReason, severityReason } = whole?.opening ?? {}
      const stated = {
        ...defined({
          vote_refusal: standing?.voteRefusal,
          agent_reason: agentReason,
          severity_reason: severityReason,
        }),
      }
      const dir = logDirectoryOf(request.policy)
      if (dir === undefined || whole === undefined) return { ...stated, caller_calls: [], tool_calls: [] }
      const { callsAround } = await import('./find-calls.js')
      const { Explainer } = await import('../../policy-tools/explain/explainer.js')
      const { outcome, byCaller, byTool } = await callsAround(dir, whole)
      const { opening, tenant, server, tool, reason } = whole
      const place =
        opening?.policySha256 === undefined
          ? undefined
          : new Explainer(dir).placeOf({
              ...{ tenant, server, tool, policy_sha256: opening.policySha256 },
              decided_by: { stage: opening.stage, rule: reason },
            })
      return {
        ...stated,
        ...(place === undefined ? {} : { rule: { ...place, lines: [...place.lines] } }),
        caller_calls: [...byCaller],
        tool_calls: [...byTool],
        ...defined({ outcome }),
      }
    },
  }),
]

/** Undefined if code writes the records. */
export function logDirectoryOf(policy: OperationRequest['policy']): string | undefined {
  return resolveOptional(policy.container, services.auditLog)?.dir
}

/** A call that is likely to work: of a server that lists its tools, if there is one, and of a tool that only reads. */
function firstCall(url: string, known: readonly KnownServer[]) {
  const listing = known.filter(({ isListed, tools }) => isListed && tools.length > 0)
  const { server, tools, isMcp } = listing.find((one) => one.isMcp) ?? listing[0] ?? {}
  if (server === undefined || tools === undefined)
    return { url: `${url}/mcp/${known[0]?.server ?? 'SERVER'}/TOOL@1.0.0`, by: 'unknown_tool' } as const
  if (isMcp !== true) return { url: `${url}/mcp/${server}`, by: 'mcp_client' } as const
  const only = tools.find(({ name }) => isHarmlessByName(name)) ?? tools[0]
  return { url: `${url}/mcp/${server}/${only?.name}@${only?.version}`, by: 'listed_tool' } as const
}

function isHarmlessByName(name: string): boolean {
  return sideEffectsOf({ kind: 'tool', name, reference: name, args: {} }) === 'harmless'
}
