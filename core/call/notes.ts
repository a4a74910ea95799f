// Notes: what stages say of their judgement of a call, for tools that explain it. Without a listener none is made.
import { slot } from './slot.js'

/** An entry of a section that applies to some calls only. */
export interface SectionEntry {
  readonly kind: 'rule' | 'plan' | 'pattern'
  readonly name: string
  /** From the policy's root, beginning with the section. */
  readonly path: readonly (string | number)[]
}

/** `entry` is the entry of the policy that applied to the call. */
export type NoteListener = (text: string, entry: SectionEntry | undefined) => void

/** Set by tools that explain a call. */
export const notes = slot<NoteListener>('notes')

/**
 * Set for a call that is judged and never sent: stages open, ask and keep nothing for it. State that a stage cannot know,
 * such as what the server has listed, is assumed not to refuse the call, and a note says so.
 */
export const judgedOnly = slot<true>('judgedOnly')
