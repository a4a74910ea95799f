// The shape of policy loading: layers in, one effective policy or every mistake out.
import type { z } from 'zod'
import type { PolicyFacts } from '../plugin/facts.js'
import type { Plugin } from '../plugin/plugin.js'

/** One thing to tell the author of a policy. Lines and columns count from 1; absent for objects. */
export interface Diagnostic {
  readonly severity: 'mistake' | 'warning'
  /** The file as it was named, or `options` for what code passed. */
  readonly file: string
  readonly line?: number
  readonly column?: number
  /** Dotted path into the policy, for example `authn.oidc.issuer` or `pipeline[2]`. */
  readonly path: string
  /** What is wrong and what is accepted. */
  readonly message: string
}

/** Where a part of the configuration comes from. A later layer's top-level section replaces an earlier one's. */
export type PolicyLayer =
  | { readonly file: string; readonly text: string }
  | { readonly file: string; readonly object: Readonly<Record<string, unknown>> }

export interface PolicyInput<Host> {
  readonly layers: readonly PolicyLayer[]
  /** What is no plugin's section: `targets`, `tenant`, `port`, `server`, …; strict. */
  readonly host: z.ZodType<Host>
  /** What the host's part says that concerns plugins. */
  readonly hostFacts?: (host: Host) => PolicyFacts
  /** Of two with one name the later counts, so that a user's own takes the place of ours. */
  readonly plugins: readonly Plugin[]
  /**
   * What each module named under the policy's `plugins` is, by its `use`: its plugin, or why there is none.
   * Absent: `plugins` holds what was imported, and which entry it came from is not known.
   */
  readonly custom?: ReadonlyMap<string, Plugin | Error>
  /** Whether code bound the token, which the policy then may not choose. */
  readonly isBound?: (token: symbol) => boolean
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * True while modules named under `plugins` have not been imported: sections that no plugin owns, and
   * what the order says of them, are not judged yet.
   */
  readonly customPending?: boolean
}

/** An entry of the policy's `plugins`. */
export interface PluginUse {
  /** The name of a built-in section, or a module path (relative to the policy file) or package. */
  readonly use: string
  /** Semver range that the plugin's own version must satisfy. */
  readonly version?: string
}

export interface EffectivePolicy<Host> {
  readonly host: Host
  readonly uses: readonly PluginUse[]
  /** The plugins that run, outermost first. */
  readonly plugins: readonly Plugin[]
  /** Section name → what its schema made of it, for every plugin in `plugins`. */
  readonly sections: ReadonlyMap<string, unknown>
  /** What they and the host say that concerns others. */
  readonly facts: PolicyFacts
  /** SHA-256, hex, of the policy text or of the canonical JSON of a policy object; null without one. */
  readonly sha256: string | null
  readonly warnings: readonly Diagnostic[]
}

export type PolicyResult<Host> =
  | { readonly ok: true; readonly policy: EffectivePolicy<Host> }
  | {
      readonly ok: false
      readonly mistakes: readonly Diagnostic[]
      readonly warnings: readonly Diagnostic[]
    }
