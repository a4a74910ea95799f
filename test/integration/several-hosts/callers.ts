// Callers of the fleet's HAProxy: each repeats its call under one idempotency key until the outcome is definite, as
// docs/idempotency.md tells callers, and keeps what came of every attempt.
import { randomBytes, randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'

type CallOutcome = 'ok' | 'unknown' | 'quota_exceeded' | 'not_allowed' | 'pending'

export interface CallResult {
  readonly tool: string
  readonly key: string
  readonly outcome: CallOutcome
  readonly body: string
  readonly attempts: readonly Attempt[]
}

interface Attempt {
  /** Of the trace, which the record and the upstream have too. */
  readonly trace: string
  /** Code of the gateway's error, `ok`, or undefined if no gateway responded. */
  readonly code: string | undefined
}

const definite: Readonly<Record<string, CallOutcome>> = {
  ok: 'ok',
  IDEMPOTENT_OUTCOME_UNKNOWN: 'unknown',
  QUOTA_EXCEEDED: 'quota_exceeded',
  TOOL_NOT_ALLOWED: 'not_allowed',
  ESCALATION_PENDING: 'pending',
}
export const repeatable = ['DRAINING', 'STORE_UNAVAILABLE', 'IDEMPOTENT_DUPLICATE']

/** Milliseconds within which a call must have a definite outcome. */
export const patience = 30_000

export class Callers implements Disposable {
  readonly results: CallResult[] = []
  readonly #agent = new Agent({ keepAlive: true })
  #waiting: { readonly at: number; readonly resolve: () => void }[] = []

  /** Repeats until the outcome is definite. */
  async call(url: string, tool: string, key: string = randomUUID()): Promise<CallResult> {
    const attempts: Attempt[] = []
    const giveUp = performance.now() + patience
    while (performance.now() < giveUp) {
      const trace = randomBytes(16).toString('hex')
      const { code, body } = await this.#send(url, tool, { key, trace })
      attempts.push({ trace, code })
      const outcome = definite[code ?? '']
      if (outcome !== undefined) return this.#done({ tool, key, outcome, body, attempts })
      if (code !== undefined && !repeatable.includes(code)) throw new Error(`${tool} ${key}: ${body}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    throw new Error(`${tool} ${key} has no outcome: ${attempts.map(({ code }) => code).join(', ')}`)
  }

  /** Resolves when so many further calls have their outcome. */
  further(calls: number): Promise<void> {
    const at = this.results.length + calls
    return new Promise((resolve) => this.#waiting.push({ at, resolve }))
  }

  [Symbol.dispose](): void {
    this.#agent.destroy()
  }

  #done(result: CallResult): CallResult {
    this.results.push(result)
    const due = this.#waiting.filter(({ at }) => at <= this.results.length)
    this.#waiting = this.#waiting.filter((one) => !due.includes(one))
    for (const { resolve } of due) resolve()
    return result
  }

  #send(
    url: string,
    tool: string,
    ids: { key: string; trace: string },
  ): Promise<{ code?: string; body: string }> {
    const headers = {
      'content-type': 'application/json',
      'content-length': 2,
      'idempotency-key': ids.key,
      traceparent: `00-${ids.trace}-${randomBytes(8).toString('hex')}-01`,
    }
    return new Promise((resolve) => {
      const broken = () => resolve({ body: '' })
      const target = `${url}/mcp/shop/${tool}@1.0.0`
      const sending = request(target, { method: 'POST', headers, agent: this.#agent })
      sending.once('error', broken)
      sending.once('response', (response) => {
        let body = ''
        response.setEncoding('utf8').on('data', (piece: string) => {
          body += piece
        })
        response.once('error', broken)
        response.once('end', () => {
          const isOk = response.statusCode === 200
          resolve({ ...codeOf(isOk, body), body })
        })
      })
      sending.end('{}')
    })
  }
}

/** HAProxy's own responses are HTML. */
function codeOf(isOk: boolean, body: string): { code?: string } {
  if (isOk) return { code: 'ok' }
  if (!body.startsWith('{')) return {}
  return { code: (JSON.parse(body) as { error: string }).error }
}
