// Keys from elsewhere: a vault, a KMS, a sidecar.
import { token } from '@svc/core'

/** Bind `credentialSource` for key references that are neither `env:` nor `file://`. */
export interface CredentialSource {
  /**
   * The key for `ref` as written in the policy, for example `vault:kv/billing#key`. Rejects when the key is not
   * available; the error is logged, so it must not contain the key. `signal` aborts at the timeout.
   */
  load(ref: string, signal: AbortSignal): Promise<string>
}

export const credentialSource = token<CredentialSource>('brokers/CredentialSource')
