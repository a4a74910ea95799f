// Facts of the host's part of a policy for plugins, when it is checked and when stages are created.
import type { PolicyFacts } from '@svc/core'
import type { HostConfig } from './config.js'

/** Without an admin listener there are no reviewers. */
export function hostFacts({ admin }: HostConfig): PolicyFacts {
  if (admin === undefined) return {}
  const { reviewer_roles: roles, approval_sets: approvalSets } = admin
  return { reviewers: { ...(roles === undefined ? {} : { roles }), approvalSets } }
}
