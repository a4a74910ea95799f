// The operations on the policy in force: its text and rules, the tools that it lets callers use, and its decision about a call.
import { type NamedCaller, policyTokens, Refusal, resolveOptional, services } from '@svc/core'
import { z } from 'zod'
import { type Operation, type OperationRequest, operation } from '../admin/operation.js'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import type { KnownServer, PolicyInForce } from './server-tools.js'

const MAX_CALLERS = 500
const MAX_CALLERS_OF_SERVER = 20
const MAX_ARGUMENTS = 16_384

export const callerSchema = z.object({
  tenant: z.string(),
  kind: z.enum(['anyone', 'user', 'user_id', 'role', 'agent', 'node']),
  name: z.string(),
})

const ruleSchema = z.object({
  name: z.string(),
  tools: z.array(z.string()).describe('Patterns; empty for all tools.'),
  condition: z.string().nullable().describe('In CEL.'),
  holds_if: z.enum(['condition', 'not_condition', 'always']).describe('When the rule has its effect.'),
  effect: z.string(),
  message: z.string().nullable(),
  approval_set_id: z.string().nullable(),
})

export type RuleJson = z.output<typeof ruleSchema>

const policySchema = z.object({
  sha256: z.string().nullable(),
  mode: z.enum(['observe', 'enforce']),
  text: z.string().nullable().describe('As it was loaded; null if it was given in code.'),
  stages: z
    .array(z.object({ name: z.string(), version: z.string(), source: z.string() }))
    .describe('In the order in which they judge a call.'),
  rules: z.array(ruleSchema),
  callers: z.array(callerSchema).describe('Callers that have rules of their own in the policy.'),
  edit: z.boolean().describe('Whether tools may be turned off in the console.'),
  servers: z.array(
    z.object({
      server: z.string(),
      listed: z
        .boolean()
        .describe(
          'Whether the server listed its tools; else those that the policy names or that were called in the last 24 hours.',
        ),
      tools: z.array(z.string()),
      called_only: z
        .array(z.string())
        .describe(
          'Those of `tools` that were called, and that neither the server lists nor the policy names.',
        ),
      off: z
        .array(z.object({ tool: z.string(), block: z.string() }))
        .describe(
          'Tools that operators have turned off or blocked for every caller, with the id of the block.',
        ),
    }),
  ),
})

export type PolicyJson = z.output<typeof policySchema>

const judgementSchema = z.object({
  server: z.string(),
  tool: z.string(),
  verdict: z
    .enum(['allow', 'approval', 'deny', 'depends', 'unknown'])
    .describe(
      'approval: a person decides about each call; depends: its arguments or headers decide; unknown: a stage decides that does not explain itself.',
    ),
  because: z.array(z.string()).describe('What the verdict depends on, or why it is not known.'),
  called_only: z
    .boolean()
    .describe('Whether it was called, and neither its server lists nor the policy names it.'),
  refused: z.string().nullable().describe('Reason token; null if not every call is denied.'),
  limits: z.array(z.string()),
})

const accessSchema = z.object({
  caller: callerSchema.optional(),
  tools: z.array(judgementSchema.extend({ caller: callerSchema })),
})

export type AccessJson = z.output<typeof accessSchema>

const accessQuery = z.strictObject({
  tenant: z.string().min(1).max(200).optional(),
  kind: callerSchema.shape.kind.optional(),
  name: z.string().max(500).optional(),
  server: z.string().min(1).max(200).optional(),
  tool: z.string().min(1).max(500).optional(),
})

const triedSchema = z.strictObject({
  tenant: z.string().min(1).max(200),
  user: z.string().max(500).optional(),
  roles: z.array(z.string().max(200)).max(50).default([]),
  server: z.string().min(1).max(200),
  tool: z.string().min(1).max(500),
  arguments: z.record(z.string(), z.unknown()),
})

const explanationSchema = z.object({
  decision: z.enum(['allow', 'deny', 'escalate', 'confirm', 'unknown']),
  code: z.string().optional(),
  reason: z.string().optional(),
  stage: z.string().optional(),
  rule: z.string().optional(),
  because: z.array(z.string()).optional().describe('Why the decision is not known.'),
  lines: z.array(z.string()).describe('The explanations of the stages, in their order.'),
})

export type ExplanationJson = z.output<typeof explanationSchema>

/** The tools that callers may use, with the blocks of `blocking` in place of those in force. */
export async function effectiveAccess(
  { policy, place, ...inForce }: PolicyInForce,
  blocking = inForce.blocking,
) {
  const { EffectiveAccess } = await import('../policy-tools/explain/effective-access.js')
  return EffectiveAccess.open(policy, place, blocking)
}

/** Returns the known tools of the servers. */
export type ReadServers = (request: OperationRequest) => Promise<readonly KnownServer[]>

/** `inForce` returns the policy in force. */
export function policyOperations(inForce: () => PolicyInForce, serversOf: ReadServers): Operation[] {
  return [
    operation({
      method: 'GET',
      path: '/api/policy',
      name: 'read_policy',
      summary: 'Returns the policy in force: its text, stages, rules, callers and tools.',
      access: 'auditor',
      response: policySchema,
      run: async (request) => policyJson(inForce(), await serversOf(request)),
    }),
    operation({
      method: 'GET',
      path: '/api/policy/access',
      name: 'read_access',
      summary:
        'Returns which tools a caller may use (?tenant=&kind=&name=), which callers may use a tool (?server=&tool=), or, for the first callers and without limits, the tools of a server (?server=).',
      access: 'auditor',
      query: accessQuery,
      response: accessSchema,
      run: async (request) => accessJson(inForce(), await serversOf(request), request.query),
    }),
    operation({
      method: 'POST',
      path: '/api/policy/explain',
      name: 'explain_call',
      summary: 'Returns what the policy in force decides about a call, and why. Nothing is sent or counted.',
      access: 'auditor',
      body: triedSchema,
      response: explanationSchema,
      run: async (request) => explanationJson(inForce(), await serversOf(request), request.body),
    }),
  ]
}

function policyJson({ policy, blocks }: PolicyInForce, servers: readonly KnownServer[]): PolicyJson {
  return {
    sha256: policy.sha256,
    mode: resolveOptional(policy.container, policyTokens.denyRule)?.mode ?? 'enforce',
    text: policy.texts[0] ?? null,
    stages: policy.plugins.map(({ name, version }) => ({
      name,
      version,
      source: policy.modules.get(name) ?? 'built in',
    })),
    rules: rulesOf(policy),
    callers: policyCallers(policy),
    edit: policy.host.admin?.console.edit === true,
    servers: servers.map(({ server, isListed, tools, calledOnly }) => ({
      server,
      listed: isListed,
      tools: tools.map(({ name }) => name),
      called_only: [...calledOnly],
      off: tools.flatMap(({ name, version }) => {
        const reference = listedReference(server, 'tool', name, version)
        const block =
          blocks.findServer(server) ??
          (reference === undefined ? undefined : blocks.findReference([reference], 'tool'))
        return block === undefined ? [] : [{ tool: name, block: block.id }]
      }),
    })),
  }
}

async function accessJson(
  inForce: PolicyInForce,
  known: readonly KnownServer[],
  { tenant, kind = 'anyone', name = '', server, tool }: z.output<typeof accessQuery>,
): Promise<AccessJson> {
  if (tenant === undefined && server === undefined)
    throw new Refusal(
      'BAD_REQUEST',
      'Name a caller (?tenant=), a tool (?server=&tool=), or a server (?server=).',
    )
  await using access = await effectiveAccess(inForce)
  const servers = known
    .filter((one) => server === undefined || one.server === server)
    .map((one) => ({ ...one, tools: one.tools.filter((each) => tool === undefined || each.name === tool) }))
  const callers = tenant === undefined ? policyCallers(inForce.policy) : [{ tenant, kind, name } as const]
  const isOfServer = tenant === undefined && tool === undefined
  const found = await Promise.all(
    callers.slice(0, isOfServer ? MAX_CALLERS_OF_SERVER : undefined).flatMap((caller) =>
      servers.map(async (one) => {
        const judged = await access.judge(caller, one, !isOfServer)
        return judged.map(({ refused = null, limits, because, ...rest }) => ({
          ...rest,
          caller,
          because: [...because],
          called_only: one.calledOnly.has(rest.tool),
          refused,
          limits: [...limits],
        }))
      }),
    ),
  )
  return { ...(tenant === undefined ? {} : { caller: { tenant, kind, name } }), tools: found.flat() }
}

async function explanationJson(
  { policy, place, blocking }: PolicyInForce,
  known: readonly KnownServer[],
  { arguments: args, user, tool, ...rest }: z.output<typeof triedSchema>,
): Promise<ExplanationJson> {
  const text = JSON.stringify(args)
  if (text.length > MAX_ARGUMENTS)
    throw new Refusal('BAD_REQUEST', `arguments: expected at most ${MAX_ARGUMENTS} characters.`)
  const { explainCall } = await import('../policy-tools/explain/explain-call.js')
  // As "Who may use what" judges it: with the version that the server has stated.
  const version = known
    .find(({ server }) => server === rest.server)
    ?.tools.find(({ name }) => name === tool)?.version
  const named = version === undefined ? tool : `${tool}@${version}`
  const call = { ...rest, tool: named, args: text, ...(user === undefined || user === '' ? {} : { user }) }
  const { verdict, lines } = await explainCall(policy, call, place, blocking)
  const { decision } = verdict
  if (decision === 'unknown') return { decision, because: [...verdict.because], lines: [...lines] }
  return decision === 'allow' ? { decision, lines: [...lines] } : { ...verdict, lines: [...lines] }
}

/** The callers that the policy names, and those of the gateway's own tenant. */
export function policyCallers(policy: Policy): NamedCaller[] {
  const named = resolveOptional(policy.container, services.namedCallers) ?? []
  const own: NamedCaller = { tenant: policy.host.tenant, kind: 'anyone', name: '' }
  const isNamed = named.some(({ tenant, kind }) => tenant === own.tenant && kind === 'anyone')
  return (isNamed ? [...named] : [own, ...named]).slice(0, MAX_CALLERS)
}

function rulesOf(policy: Policy): RuleJson[] {
  const rules = resolveOptional(policy.container, services.describedRules) ?? []
  return rules.map(
    ({ tools, condition = null, isRequired, message = null, approvalSetId = null, ...rest }) => ({
      ...rest,
      tools: [...tools],
      condition,
      holds_if: condition === null ? 'always' : isRequired ? 'not_condition' : 'condition',
      message,
      approval_set_id: approvalSetId,
    }),
  )
}
