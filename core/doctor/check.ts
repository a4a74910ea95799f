// The results of `svc doctor`: whether what a policy names can be opened.
import { messageOf } from '../json/message.js'

export interface DoctorCheck {
  readonly severity: 'ok' | 'warning' | 'error'
  readonly message: string
  /** How to fix it. */
  readonly hint?: string
}

/** Ok if `open` resolves, else an error with its reason, which must not contain a secret. */
export async function checkUsable(
  subject: string,
  hint: string,
  open: () => Promise<unknown>,
): Promise<DoctorCheck> {
  try {
    await open()
    return { severity: 'ok', message: `${subject} can be used` }
  } catch (error) {
    return { severity: 'error', message: `${subject} cannot be used: ${messageOf(error)}`, hint }
  }
}
