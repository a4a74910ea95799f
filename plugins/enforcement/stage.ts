// Judges what the stages before it found, and leaves the rule behind for what is found later.
import {
  type Call,
  codeOfReason,
  type Denied,
  denied,
  type Finding,
  judgement,
  type Next,
  type Outcome,
  type Stage,
  type Verdict,
  verdict,
} from '@svc/core'
import { findingOf, judgedVerdict } from './judged.js'

export class EnforcementStage implements Stage {
  #verdict: Verdict
  #rule: string

  /** `rule` is the policy's rule in words, for `svc policy explain`. */
  constructor(compiled: Verdict, rule: string) {
    this.#verdict = compiled
    this.#rule = rule
  }

  handle(call: Call, next: Next): Promise<Outcome> {
    const rule = this.#ruleFor(call)
    call.set(verdict, rule)
    if (call.findings.length === 0) return next()
    const denial = judge(call.findings, rule)
    return denial === undefined ? next() : Promise.resolve(denial)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const rule = this.#ruleFor(call)
    call.set(verdict, rule)
    say(this.#rule)
    if (call.findings.length === 0) say('nothing was found: the call goes on')
    for (const finding of call.findings) {
      say(`${rule.effectOf(finding.reason)}: ${describe(finding)}`)
    }
    return judge(call.findings, rule) ?? next()
  }

  /** The policy's rule, or what is left of it where another has judged the call: its word is a finding like others. */
  #ruleFor(call: Call): Verdict {
    const judged = call.get(judgement)
    if (judged === undefined) return this.#verdict
    const against = findingOf(judged)
    if (against !== undefined) call.find(against)
    return judgedVerdict(this.#verdict, judged)
  }
}

function judge(findings: readonly Finding[], rule: Verdict): Denied | undefined {
  const denying = findings.filter(({ reason }) => rule.effectOf(reason) === 'deny')
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

function describe({ reason, stage, level, detail }: Finding): string {
  const where = level === undefined ? stage : `${stage}, ${level}`
  return detail === undefined ? `${reason} (${where})` : `${reason} (${where}): ${detail}`
}
