// Explains what a policy decides about one call: the judge's decision, with the notes of the stages in their order.
import {
  callRequest,
  type Denied,
  decisionOfRefusal,
  denied,
  type ErrorCode,
  type Failed,
  type Plugin,
  policyTokens,
  resolveOptional,
  statusOf,
  type TrustedCaller,
  trustedCaller,
} from '@svc/core'
import { defined, parseJson } from '@svc/core/json'
import { parseToolSegment } from '@svc/core/match'
import type { CallControl } from '@svc/core/pipeline'
import type { BlockSource } from '../../blocks/stage.js'
import type { HostConfig, Policy } from '../../policy/config.js'
import { addressesOf } from '../../stdio/targets/config.js'
import { targetOf } from '../../upstream/target.js'
import { Judge, type PolicyJudgement } from '../judge/judge.js'
import { collectNotes, type StageNote, type StagePlace, WHOLE_STAGE } from '../judge/stages.js'
import { unsentCall } from '../judge/unsent-call.js'

export interface ExplainedCall {
  readonly tenant: string
  readonly server: string
  /** `name@version`; `unversioned` without a version. */
  readonly tool: string
  readonly user?: string
  readonly roles: readonly string[]
  /** The arguments, as JSON. */
  readonly args: string
  readonly idempotencyKey?: string
}

interface ExplainedRefusal {
  readonly decision: 'deny' | 'confirm' | 'escalate'
  readonly code: ErrorCode
  readonly reason: string
  readonly stage: string
  readonly rule: string
}

/** `because`: what would have to be known. `otherwise` is the refusal by what is known, if that refuses the call. */
export type ExplainedVerdict =
  | { readonly decision: 'allow' }
  | {
      readonly decision: 'unknown'
      readonly because: readonly string[]
      readonly otherwise?: ExplainedRefusal
    }
  | ExplainedRefusal

export interface CallExplanation {
  /** The explanation for a terminal. The last line is the verdict. */
  readonly lines: readonly string[]
  readonly verdict: ExplainedVerdict
}

/** `blocks` are those of a gateway. Throws what a plugin's `create` throws. */
export async function explainCall(
  policy: Policy,
  requested: ExplainedCall,
  place: StagePlace,
  blocks?: BlockSource,
): Promise<CallExplanation> {
  const lines: string[] = []
  const warn = (message: string) => void lines.push(`warning: ${message}`)
  await using judge = await Judge.start(policy, {
    place: { ...place, warn },
    blocks,
    runsUnstated: true,
    through: 'end',
  })
  judge.clock.set({ time: Date.now() })
  const call = callFor(requested, policy)
  const noted: StageNote[] = []
  collectNotes(call, (note) => {
    if (note.text !== '') noted.push(note)
  })
  const { reference, readings } = await call.request()
  lines.unshift(
    `call: ${reference} for ${describeCaller(requested)}`,
    ...readings.slice(1).map((reading) => `reading: the server could also read ${reading}`),
    `plugins: ${policy.plugins.map((plugin) => describePlugin(plugin, policy)).join(', ')}`,
  )
  // A gateway refuses such a call before the stages too.
  const unknown = unknownServer(requested.server, policy.host)
  const verdict =
    unknown === undefined ? verdictOf(await judge.judge(call), call, noted) : refusalOf(unknown, call, noted)
  lines.push(
    ...noted.map(({ stage, text }) => `${stage}: ${text}`),
    `verdict: ${describeVerdict(verdict, requested.server)}`,
  )
  return { lines, verdict }
}

function verdictOf(
  { outcome, possible }: PolicyJudgement,
  call: CallControl,
  noted: readonly StageNote[],
): ExplainedVerdict {
  const refusal = outcome.kind === 'completed' ? undefined : refusalOf(outcome, call, noted)
  const because = possible.map(({ stage, reason, missing }) =>
    reason === WHOLE_STAGE
      ? `${missing.join(', ')} is not known`
      : `${stage}: ${missing.join(', ')} is not known`,
  )
  if (because.length === 0) return refusal ?? { decision: 'allow' }
  return { decision: 'unknown', because, ...defined({ otherwise: refusal }) }
}

/** The rule is the detail of the finding, else the last note of the stage that ended the call. */
function refusalOf(
  outcome: Denied | Failed,
  call: CallControl,
  noted: readonly StageNote[],
): ExplainedRefusal {
  const { code, message } = outcome
  const denial = outcome.kind === 'denied' ? outcome.denial : undefined
  const finding = call.findings.find(({ reason }) => reason === denial?.reason)
  const stage = finding?.stage ?? call.endedBy ?? 'gateway'
  const last = noted.findLast((note) => note.stage === call.endedBy)?.text
  return {
    decision: decisionOfRefusal(code),
    code,
    reason: denial?.reason ?? message,
    stage,
    rule: finding?.detail ?? last ?? message,
  }
}

function describeVerdict(verdict: ExplainedVerdict, server: string): string {
  switch (verdict.decision) {
    case 'allow':
      return `would be sent to server "${server}"`
    case 'unknown': {
      const { because, otherwise } = verdict
      const then = otherwise === undefined ? `sent to server "${server}"` : describeVerdict(otherwise, server)
      return `unknown: ${because.join('; ')}; otherwise it would be ${then}`
    }
    case 'deny':
    case 'confirm':
    case 'escalate': {
      const { code, reason, stage, rule } = verdict
      return `denied with ${code} (${statusOf(code)}); reason: ${reason}; stage: ${stage}; rule: ${rule}`
    }
  }
}

function unknownServer(server: string, { targets }: HostConfig): Denied | undefined {
  if (Object.hasOwn(targets, server)) return undefined
  const known = Object.keys(targets).join(', ') || 'none'
  return denied('TARGET_NOT_FOUND', `There is no server "${server}" in targets; known: ${known}.`)
}

/** Whether names are sent to the server in paths instead of messages. */
function isPlain(server: string, { targets }: HostConfig): boolean {
  const { [server]: address } = addressesOf(targets)
  return address !== undefined && !targetOf(address).isMcp
}

function callFor(requested: ExplainedCall, policy: Policy): CallControl {
  const segment = requested.tool.includes('@') ? requested.tool : `${requested.tool}@unversioned`
  const { tool, version } = parseToolSegment(segment)
  const bytes = Buffer.from(requested.args)
  const { tenant, server, idempotencyKey: key } = requested
  const request = callRequest({
    kind: 'tool',
    method: null,
    server,
    name: tool,
    version,
    isInPath: isPlain(server, policy.host),
    args: parseJson(bytes, 'exact'),
    bytes: bytes.byteLength,
    idempotencyKey: key ?? null,
  })
  const caller = callerOf(requested)
  // Without an issuer, a caller with a user or roles is one whose token cannot be validated.
  const knowsUsers = resolveOptional(policy.container, policyTokens.knowsUsers) !== false
  const token = !knowsUsers && caller.identity.authenticated ? { authorization: 'Bearer e30.e30.e30' } : {}
  const call = unsentCall(request, {
    showsForms: true,
    headers: { 'x-tenant': tenant, ...token, ...defined({ 'idempotency-key': key }) },
  })
  if (knowsUsers) call.set(trustedCaller, caller)
  return call
}

/** The caller has every scope, as a command line has no token. */
function callerOf({ tenant, user, roles }: ExplainedCall): TrustedCaller {
  const named = user === undefined ? {} : { user }
  const authenticated = user !== undefined || roles.length > 0
  return { identity: { tenant, authenticated, roles, ...named }, scopes: new EveryScope() }
}

class EveryScope extends Set<string> {
  override has(): boolean {
    return true
  }
}

/** The section, and the version and source of the plugin that owns it. */
function describePlugin({ name, version }: Plugin, { modules }: Policy): string {
  return `${name} ${version} (${modules.get(name) ?? 'built in'})`
}

function describeCaller({ tenant, user, roles }: ExplainedCall): string {
  const who = user === undefined ? 'a caller without a user' : `user "${user}"`
  const as = roles.length === 0 ? '' : ` with the roles ${roles.join(', ')}`
  return `${who} of tenant "${tenant}"${as}`
}
