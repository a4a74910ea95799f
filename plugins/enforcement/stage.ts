// Judges what the stages before it found, and leaves the rule behind for what is found later.
import {
  type Call,
  codeOfReason,
  type Denied,
  denied,
  type Finding,
  type Next,
  type Outcome,
  type Stage,
  type Verdict,
  verdict,
} from '@svc/core'

export class EnforcementStage implements Stage {
  #verdict: Verdict
  #rule: string

  /** `rule` is the policy's rule in words, for `svc policy explain`. */
  constructor(compiled: Verdict, rule: string) {
    this.#verdict = compiled
    this.#rule = rule
  }

  handle(call: Call, next: Next): Promise<Outcome> {
    call.set(verdict, this.#verdict)
    if (call.findings.length === 0) return next()
    const denial = this.#judge(call.findings)
    return denial === undefined ? next() : Promise.resolve(denial)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    call.set(verdict, this.#verdict)
    say(this.#rule)
    if (call.findings.length === 0) say('nothing was found: the call goes on')
    for (const finding of call.findings) {
      say(`${this.#verdict.effectOf(finding.reason)}: ${describe(finding)}`)
    }
    return this.#judge(call.findings) ?? next()
  }

  #judge(findings: readonly Finding[]): Denied | undefined {
    const denying = findings.filter(({ reason }) => this.#verdict.effectOf(reason) === 'deny')
    const [first] = denying
    if (first === undefined) return undefined
    return denied(codeOfReason(first.reason), `Denied: ${denying.map(describe).join('; ')}.`, {
      denial: {
        ...(first.level === undefined ? {} : { level: first.level }),
        type: first.stage,
        reason: first.reason,
      },
    })
  }
}

function describe({ reason, stage, level, detail }: Finding): string {
  const where = level === undefined ? stage : `${stage}, ${level}`
  return detail === undefined ? `${reason} (${where})` : `${reason} (${where}): ${detail}`
}
