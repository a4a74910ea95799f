// References of tools, prompts and resources, and patterns over them.
export { type Glob, globMatches, globOf } from './glob.js'
export {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternMatch,
  type PatternSet,
} from './matcher.js'
export { compilePattern, type Pattern, type PatternCode, PatternError } from './pattern.js'
export {
  formatNameSegment,
  formatReference,
  formatToolSegment,
  type PromptParts,
  parseNameSegment,
  parseReference,
  parseToolSegment,
  type ReferenceCode,
  ReferenceInputError,
  type ReferenceParts,
  type ResourceParts,
  type ToolParts,
} from './reference.js'
export { wordsOf } from './words.js'
