// Types of policy loading: layers in, one effective policy or all mistakes out.
import type { DependencyContainer } from 'tsyringe'
import type { z } from 'zod'
import type { ConfigConflict, Plugin } from '../plugin/plugin.js'
import type { PolicyHost } from '../plugin/policy-tokens.js'
import type { Secret } from './environment.js'

/** A message for the author of a policy. Lines and columns count from 1; absent for objects of code. */
export interface Diagnostic {
  readonly severity: 'mistake' | 'warning' | 'note'
  /** The name of the file, or `options` for objects of code. */
  readonly file: string
  readonly line?: number
  readonly column?: number
  /** Dotted path into the policy, for example `authn.oidc.issuer` or `pipeline[2]`. */
  readonly path: string
  /** The mistake, and the accepted values. */
  readonly message: string
  /** The source line with a caret below the place, of a text that is not YAML or a mistake inside an expression; two lines for a terminal. */
  readonly excerpt?: string
}

/** A source of configuration. A later layer's section replaces an earlier layer's as a whole. */
export type PolicyLayer =
  | { readonly file: string; readonly text: string }
  | { readonly file: string; readonly object: Readonly<Record<string, unknown>> }

export interface PolicyInput<Host> {
  readonly layers: readonly PolicyLayer[]
  /** The keys that belong to no plugin: `targets`, `tenant`, `port`, `server`, …; strict. */
  readonly host: z.ZodType<Host>
  /** The host's keys that plugins need. */
  readonly policyHost?: (host: Host) => PolicyHost
  /** The `check` of the host's keys. */
  readonly checkHost?: (host: Host) => readonly ConfigConflict[]
  /** If two have one name, the later counts, so that a user's plugin replaces a built-in one. */
  readonly plugins: readonly Plugin[]
  /** The sections that every policy needs, whichever plugin owns them. */
  readonly required?: readonly string[]
  /** Section → the section inside which it may be written as well: `ap2` → `security` for `security.ap2`. */
  readonly nested?: Readonly<Record<string, string>>
  /**
   * The imported modules of the policy's `plugins` by their `use`: the plugin, or the error of the import. Absent:
   * `plugins` contains the imported ones, and their entries are not known.
   */
  readonly custom?: ReadonlyMap<string, Plugin | Error>
  /** The bindings made in code: the policy must not choose another implementation of them. */
  readonly bindings: DependencyContainer
  readonly env: Readonly<Record<string, string | undefined>>
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
  /** Section name → the `use` in `plugins` from which its plugin was imported. */
  readonly modules: ReadonlyMap<string, string>
  /** Section name → the parsed section, for every plugin in `plugins`. */
  readonly sections: ReadonlyMap<string, unknown>
  /** The bindings of code, of the sections and of the host. */
  readonly container: DependencyContainer
  /** SHA-256, hex, of the last of `texts`; null without one. */
  readonly sha256: string | null
  /** The policy text, or the canonical JSON of a policy object; empty without a policy. */
  readonly texts: readonly string[]
  readonly warnings: readonly Diagnostic[]
  /** Further lines of `svc policy check`. */
  readonly notes: readonly Diagnostic[]
  /** The values of `${env:NAME}` in the host's keys; not to be logged. */
  readonly hostSecrets: readonly Secret[]
}

export interface RefusedPolicy {
  readonly ok: false
  readonly mistakes: readonly Diagnostic[]
  readonly warnings: readonly Diagnostic[]
}

export type PolicyResult<Host> = { readonly ok: true; readonly policy: EffectivePolicy<Host> } | RefusedPolicy

export type HostResult<Host> = { readonly ok: true; readonly host: Host } | RefusedPolicy
