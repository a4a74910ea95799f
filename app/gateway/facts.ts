// What the host's part of a policy says that plugins have to know, when it is judged and when stages are created.
import type { PolicyFacts } from '@svc/core'
import type { HostConfig } from './config.js'

/** Nobody reviews while there is no admin listener: `reviewers` comes from its section. */
export function hostFacts(_host: HostConfig): PolicyFacts {
  return {}
}
