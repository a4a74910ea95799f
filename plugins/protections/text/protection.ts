// The protection `text`: attacks on the model in what servers say, and secrets in what the model sends.
import { definitionFilter, resolveOptional, responseChange, tokens } from '@svc/core'
import { definitionTexts } from '../shared/definition-texts.js'
import { defineProtection } from '../shared/protection.js'
import { textConfig, textSchema } from './config.js'
import { TextStage, textReasons } from './stage.js'

export const text = defineProtection({
  schema: textSchema,
  reasons: [...textReasons],
  provides: [definitionFilter, definitionTexts, responseChange],
  metrics: {
    svc_text_findings_total: {
      kind: 'counter',
      help: 'Places in definitions, responses and arguments that a rule on texts found.',
    },
    svc_text_stripped_total: { kind: 'counter', help: 'Responses from which text was removed.' },
    svc_text_withheld_total: { kind: 'counter', help: 'Definitions that were withheld for their text.' },
    svc_text_unchecked_total: {
      kind: 'counter',
      help: 'Calls with text that was too long or too deep to be checked.',
    },
  },
  configure(settings, preset) {
    if (settings === undefined && preset === undefined) return undefined
    const config = textConfig(settings, preset)
    return {
      create: ({ container }) => new TextStage(config, resolveOptional(container, tokens.Meter)),
    }
  },
})
