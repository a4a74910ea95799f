// Explains what a policy would decide about one call, by the stages' own explanations, in pipeline order. No stage is
// started and none handles the call, so nothing is written, counted or contacted.
import {
  type Call,
  callRequest,
  type Denied,
  decisionOfRefusal,
  denied,
  type ErrorCode,
  type Failed,
  identity,
  type Outcome,
  type Plugin,
  type Stage,
  statusOf,
} from '@svc/core'
import { parseJson } from '@svc/core/json'
import { parseToolSegment } from '@svc/core/match'
import { type CallControl, compose, type InsertedStage, type PlacedStage } from '@svc/core/pipeline'
import type { HostConfig, Policy } from '../policy/config.js'
import { unsent, unsentCall } from '../policy/unsent-call.js'
import { addressesOf } from '../stdio-targets/config.js'
import { targetOf } from '../upstream/target.js'
import { commandContext } from './command-context.js'

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

/**
 * The decision of the policy; undecided if stages that do not explain themselves can change it. `otherwise` is the refusal by
 * the other stages, if they refuse the call.
 */
export type ExplainedVerdict =
  | { readonly decision: 'allow' }
  | {
      readonly decision: 'undecided'
      readonly because: readonly string[]
      readonly otherwise?: ExplainedRefusal
    }
  | ExplainedRefusal

export interface CallExplanation {
  /** The explanation for a terminal. The last line is the verdict. */
  readonly lines: readonly string[]
  readonly verdict: ExplainedVerdict
}

/** `inserted` is a stage of the gateway. Throws what a plugin's `create` throws. */
export async function explainCall(
  policy: Policy,
  requested: ExplainedCall,
  baseDir: string,
  inserted?: InsertedStage,
): Promise<CallExplanation> {
  const lines: string[] = []
  const control = callFor(requested, isPlain(requested.server, policy.host))
  const { call } = control
  call.set(identity, identityOf(requested))
  const context = commandContext(policy, { baseDir, warn: (message) => lines.push(`warning: ${message}`) })
  const explanation = new Explanation(lines)
  const stages = policy.plugins.flatMap((plugin) => {
    const placed = explanation.place(plugin, plugin.create(policy.sections.get(plugin.name), context))
    return inserted !== undefined && plugin.provides?.includes(inserted.within) === true
      ? [placed, explanation.place(inserted, inserted.stage)]
      : [placed]
  })
  const { reference, readings } = await call.request()
  lines.unshift(
    `call: ${reference} for ${describeCaller(requested)}`,
    ...readings.slice(1).map((reading) => `reading: the server could also read ${reading}`),
    `plugins: ${policy.plugins.map((plugin) => describePlugin(plugin, policy)).join(', ')}`,
  )
  const unknown = unknownServer(requested.server, policy.host)
  // A gateway refuses such a call before the stages too.
  const outcome = unknown ?? (await compose(stages, () => Promise.resolve(unsent))(control))
  const verdict = explanation.verdict(outcome, call)
  lines.push(`verdict: ${describeVerdict(verdict, requested.server)}`)
  return { lines, verdict }
}

function describeVerdict(verdict: ExplainedVerdict, server: string): string {
  switch (verdict.decision) {
    case 'allow':
      return `would be sent to server "${server}"`
    case 'undecided': {
      const { because, otherwise } = verdict
      const then = otherwise === undefined ? `sent to server "${server}"` : describeVerdict(otherwise, server)
      return `undecided: ${because.join('; ')}; otherwise it would be ${then}`
    }
    case 'deny':
    case 'confirm':
    case 'escalate': {
      const { code, reason, stage, rule } = verdict
      return `denied with ${code} (${statusOf(code)}); reason: ${reason}; stage: ${stage}; rule: ${rule}`
    }
  }
}

function unknownServer(server: string, { targets }: HostConfig): Outcome | undefined {
  if (Object.hasOwn(targets, server)) return undefined
  const known = Object.keys(targets).join(', ') || 'none'
  return denied('TARGET_NOT_FOUND', `There is no server "${server}" in targets; known: ${known}.`)
}

/** Whether names are sent to the server in paths instead of messages. */
function isPlain(server: string, { targets }: HostConfig): boolean {
  const { [server]: address } = addressesOf(targets)
  return address !== undefined && !targetOf(address).isMcp
}

/** A plugin, or a stage of the gateway. */
type Placed = Pick<Plugin, 'name' | 'phase' | 'provides'>

class Explanation {
  readonly #lines: string[]
  /** The innermost stage that refused, and its last line, which is the rule. */
  #decided: { plugin: Placed; rule: string | undefined } | undefined
  readonly #undecided: { plugin: Placed; why: string }[] = []

  constructor(lines: string[]) {
    this.#lines = lines
  }

  /** The stage with its explanation instead of its work. */
  place(plugin: Placed, stage: Stage): PlacedStage {
    const { name, provides } = plugin
    return {
      name,
      stage: {
        handle: async (call, next) => {
          if (stage.explain === undefined) {
            const isIdentity = provides?.some(({ index }) => index === identity.index) === true
            const why = isIdentity ? 'the caller is taken from the command line' : 'it explains nothing'
            this.#lines.push(`${name}: passed over, ${why}`)
            if (!isIdentity) this.#undecided.push({ plugin, why: 'explains nothing' })
            return next()
          }
          let rule: string | undefined
          const say = (line: string) => {
            rule = line
            this.#lines.push(`${name}: ${line}`)
          }
          let hasAsked = false
          const outcome = await stage.explain(
            call,
            () => {
              hasAsked = true
              return next()
            },
            say,
            (why) => this.#undecided.push({ plugin, why }),
          )
          if (outcome.kind !== 'completed' && !hasAsked) this.#decided = { plugin, rule }
          return outcome
        },
      },
    }
  }

  verdict(outcome: Outcome, call: Call): ExplainedVerdict {
    const refusal = outcome.kind === 'completed' ? undefined : this.#refusal(outcome, call)
    const because = this.#undecided
      .filter((one) => refusal === undefined || this.#mayChange(refusal, one.plugin, call))
      .map(({ plugin, why }) => `stage ${plugin.name} ${why}`)
    if (because.length === 0) return refusal ?? { decision: 'allow' }
    return { decision: 'undecided', because, ...(refusal === undefined ? {} : { otherwise: refusal }) }
  }

  /** A finding that denies wins over one that escalates. A runtime may allow what findings deny, save by a ruling. */
  #mayChange({ decision }: ExplainedRefusal, { phase }: Placed, call: Call): boolean {
    if (this.#decided?.plugin.phase !== 'decision') return false
    if (decision !== 'deny') return true
    return phase === 'evaluation' && !call.findings.some(({ ruling }) => ruling === 'deny')
  }

  #refusal(outcome: Denied | Failed, call: Call): ExplainedRefusal {
    const { code, message } = outcome
    const denial = outcome.kind === 'denied' ? outcome.denial : undefined
    const finding = call.findings.find(({ reason }) => reason === denial?.reason)
    return {
      decision: decisionOfRefusal(code),
      code,
      reason: denial?.reason ?? message,
      stage: finding?.stage ?? this.#decided?.plugin.name ?? 'gateway',
      rule: finding?.detail ?? this.#decided?.rule ?? message,
    }
  }
}

function callFor(requested: ExplainedCall, isInPath: boolean): CallControl {
  const segment = requested.tool.includes('@') ? requested.tool : `${requested.tool}@unversioned`
  const { tool, version } = parseToolSegment(segment)
  const bytes = Buffer.from(requested.args)
  const request = callRequest({
    kind: 'tool',
    method: null,
    server: requested.server,
    name: tool,
    version,
    isInPath,
    args: parseJson(bytes),
    bytes: bytes.byteLength,
    idempotencyKey: requested.idempotencyKey ?? null,
  })
  const { idempotencyKey: key } = requested
  return unsentCall(request, {
    showsForms: true,
    ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
  })
}

function identityOf({ tenant, user, roles }: ExplainedCall) {
  return {
    tenant,
    authenticated: user !== undefined || roles.length > 0,
    roles,
    ...(user === undefined ? {} : { user }),
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
