// One line for each call, made from its record, at the terminal of a gateway.
import { type AuditEnvelope, callerIn } from '@svc/plugin-audit/log'
import type { StyledText, WriteLine } from './io.js'
import { clockTime } from './log-lines.js'
import { formatMilliseconds } from './table.js'

/** A faster gateway prints the number of the other calls: a terminal is slower than it. */
const maxPerSecond = 40
const maxReason = 160
/** The MCP methods that use a tool, a prompt or a resource. Calls of other methods are shown only if they fail. */
const usingMethods = /^(?:tools\/call|prompts\/get|resources\/(?:read|subscribe)|completion\/complete)$/
/** Events that come with the line of a call. */
const stepsOfCalls = /^escalations\/(?:open|use|give-back)@/

/** How to see more of a call. */
export interface Further {
  /** The command that prints the records of a trace. */
  readonly show: (traceId: string) => string
  /** The command that approves an escalation; absent without a listener for approvals. */
  readonly approve?: ((id: string) => string) | undefined
  /** The command that counts calls. */
  readonly stats: string
}

export class CallLines {
  #write: WriteLine
  #further: Further | undefined
  #second = 0
  #shown = 0
  #left = 0
  #timer: NodeJS.Timeout | undefined

  constructor(write: WriteLine) {
    this.#write = write
  }

  /** Sets what is known when the gateway has started. */
  use(further: Further): void {
    this.#further = further
  }

  readonly show = (record: AuditEnvelope): void => {
    if (!isShown(record)) return
    const now = Date.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#summarise()
      this.#second = second
      this.#shown = 0
    }
    if (this.#shown++ < maxPerSecond) this.#write(...callPieces(record, now, this.#further))
    else {
      this.#left++
      this.#timer ??= setTimeout(() => this.#summarise(), 1000).unref()
    }
  }

  #summarise(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#left === 0) return
    const more = this.#further === undefined ? '' : `: ${this.#further.stats}`
    this.#write({ text: `          and ${this.#left} calls more in that second${more}`, style: 'dim' })
    this.#left = 0
  }
}

function isShown(record: AuditEnvelope): boolean {
  return isUse(record) || (record.mcp_method === undefined && !stepsOfCalls.test(record.tool))
}

/** Whether the record is of a use of a tool, a prompt or a resource, or of another request that failed. */
export function isUse({ mcp_method: method, server, gateway, tool, status }: AuditEnvelope): boolean {
  if (method === undefined) return server !== gateway || !tool.includes('/')
  return usingMethods.test(method) || status === 'error'
}

/** Whether the call was sent although a finding denies it, as the policy observes. */
export function wouldDeny({ policy, findings = [] }: AuditEnvelope): boolean {
  return policy.decision === 'allow' && findings.some(({ effect }) => effect === 'would_deny')
}

export function callPieces(record: AuditEnvelope, at: number, further: Further | undefined): StyledText[] {
  const { latency_ms: ms, escalation_id: id, trace_id: trace } = record
  const { word, style, reason } = resultOf(record)
  const approves =
    record.error === 'ESCALATION_PENDING' && id !== undefined ? further?.approve?.(id) : undefined
  const more = reason === '' ? undefined : (approves ?? further?.show(trace))
  return [
    { text: `${clockTime(at)}  `, style: 'dim' },
    { text: `${callerIn(record).padEnd(12)}  ${subjectOf(record).padEnd(28)}  ` },
    { text: word.padEnd(6), style },
    { text: `${formatMilliseconds(ms)} ms`.padStart(9), style: 'dim' },
    ...(reason === '' ? [] : [{ text: `  ${reason}`, style }]),
    ...(more === undefined ? [] : [{ text: `  ${more}`, style: 'dim' as const }]),
  ]
}

/** Server and tool without their versions. */
function subjectOf({ server, tool, gateway }: AuditEnvelope): string {
  const name = tool.slice(0, tool.lastIndexOf('@'))
  return server === gateway ? name : `${server.slice(0, server.lastIndexOf('@'))}/${name}`
}

interface Result {
  readonly word: string
  readonly style: StyledText['style']
  /** Empty for a call that is as it should be. */
  readonly reason: string
}

function resultOf(record: AuditEnvelope): Result {
  const { policy, status, error, findings = [] } = record
  const deciding = findings.filter(({ effect }) => effect !== 'reported')
  const why = deciding.map(({ reason, detail }) => (detail === undefined ? reason : `${reason}: ${detail}`))
  const whole = why.length > 0 ? why.join('; ') : (error ?? '')
  const reason = whole.length > maxReason ? `${whole.slice(0, maxReason)}…` : whole
  if (policy.decision === 'deny') {
    return error === 'ESCALATION_PENDING'
      ? { word: 'wait', style: 'yellow', reason }
      : { word: 'deny', style: 'red', reason }
  }
  if (status === 'error') {
    const found = why.length === 0 ? '' : `; would deny: ${reason}`
    return {
      word: 'failed',
      style: 'red',
      reason: `${error ?? 'the server responded with an error'}${found}`,
    }
  }
  if (wouldDeny(record)) return { word: 'would deny', style: 'yellow', reason }
  return { word: 'allow', style: 'green', reason: '' }
}
