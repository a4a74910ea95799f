// The slot by which the protection `text` tells `definitions` what it withholds, which then counts as not served.
import { type DefinitionFilter, slot } from '@svc/core'

export const definitionTexts = slot<DefinitionFilter>('protections/definition_texts')
