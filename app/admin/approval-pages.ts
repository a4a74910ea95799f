// The URL of the page on which people see an escalation. A link in a notice names it, and grants nothing.
import type { AdminConfig } from '../policy/admin-config.js'

type Listener = Pick<AdminConfig, 'publicUrl' | 'port' | 'tls'>

export class ApprovalPages {
  #config: Listener | undefined
  #port: number | undefined

  /** The section of the policy in force. */
  use(config: Listener | undefined): void {
    this.#config = config
  }

  /** The port of the listener, which the policy may leave open. */
  listening(port: number): void {
    this.#port = port
  }

  /** Undefined without an admin listener. */
  urlOf(id: string): string | undefined {
    const base = this.#base()
    return base === undefined ? undefined : `${base}/console/approvals/${encodeURIComponent(id)}`
  }

  #base(): string | undefined {
    if (this.#config === undefined) return undefined
    const { publicUrl, tls, port } = this.#config
    if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, '')
    const open = port === 0 ? this.#port : port
    // Browsers keep secure cookies and passkeys for this name, and not for an IP address.
    return open === undefined ? undefined : `${tls === undefined ? 'http' : 'https'}://localhost:${open}`
  }
}
