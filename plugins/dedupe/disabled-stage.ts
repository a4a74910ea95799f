// `enabled: false`: the section may stay in the policy, and no call pays for it.
import type { Call, Next, Outcome, Stage } from '@svc/core'

export class DisabledStage implements Stage {
  handle(_call: Call, next: Next): Promise<Outcome> {
    return next()
  }

  explain(_call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('enabled is false: idempotency keys are passed on and not looked at')
    return next()
  }
}
