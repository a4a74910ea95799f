// Keys from anywhere else: a vault, a KMS, a sidecar.
import { token } from '@svc/core'

/** Bind `credentialSource` for key references that are neither `env:` nor `file://`. */
export interface CredentialSource {
  /**
   * The key under `ref`, as the policy has it, for example `vault:kv/billing#key`. Rejects when it cannot be
   * had; the rejection is logged, so it must not hold the key. `signal` fires when nobody waits any longer.
   */
  load(ref: string, signal: AbortSignal): Promise<string>
}

export const credentialSource = token<CredentialSource>('brokers/CredentialSource')
