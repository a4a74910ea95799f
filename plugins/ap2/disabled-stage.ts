// `enabled: false`: the section may stay in the policy.
import type { Call, MaybePromise, Next, Outcome, Stage } from '@svc/core'

export class DisabledStage implements Stage {
  handle(_call: Call, next: Next): MaybePromise<Outcome> {
    return next()
  }

  explain(_call: Call, next: Next, say: (line: string) => void): MaybePromise<Outcome> {
    say('enabled is false: mandates are not read')
    return next()
  }
}
