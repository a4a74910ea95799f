// Reads the file of a policy.
import { readFileSync } from 'node:fs'
import { reasonOf } from '@svc/core/json'
import { PolicyError } from '@svc/core/policy'

/** The text of a policy file. Throws `PolicyError` with the reason if it cannot be read. */
export function readPolicyText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const message = `cannot be read: ${reasonOf(error)}`
    throw new PolicyError([{ severity: 'mistake', file, path: '', message }])
  }
}
