// What the host's part of a policy says that plugins have to know, when it is judged and when stages are created.
import type { PolicyFacts } from '@svc/core'
import type { HostConfig } from './config.js'

/** Nobody reviews while there is no admin listener to vote on. */
export function hostFacts({ admin }: HostConfig): PolicyFacts {
  if (admin === undefined) return {}
  const { reviewer_roles: roles, approval_sets: approvalSets } = admin
  return { reviewers: { ...(roles === undefined ? {} : { roles }), approvalSets } }
}
