# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/cli"
require "abaca/default_handler"
require "abaca/fiber_pool"
require "abaca/rack_handler"
require "abaca/scheduler"
require "rbs"

# sig/ against the code: every public method has a signature that takes what the method takes, every signature has its
# method, and all of them parse and resolve.
class SignaturesTest < Minitest::Test
  FOLDER = File.expand_path("../../sig", __dir__)

  # Used by several files of Abaca's, and not by programs that use Abaca.
  INTERNAL = %w[
    AccessLog::Formats Addresses AppLoader AtomicFile BinaryInput CLI::Settings CommandLine Compat Config::Admission
    Config::DSL::Control Config::DSL::Draft
    Config::DSL::Limits Config::DSL::Listeners Config::DSL::Logging Config::DSL::Modes Config::DSL::Parts
    Config::DSL::ProcessSettings Config::DSL::PumaSettings Config::DSL::Sight Config::HookData Config::HttpMethods
    Config::NotDone Config::Plugins Config::Processors Config::Services
    Config::BindOptions Config::Setting Config::Stalls Config::Table Config::Types Config::Values Control
    DefaultHandler Dump Engine
    Metrics CLI::Help ErrorAnswers FiberSafety::Row Frames Guest Heart OutOfBand Launcher::App Launcher::Banner
    Launcher::Cluster Launcher::Listeners
    Launcher::OnlySlot
    Launcher::Revision
    Launcher::Output Launcher::Overdue Launcher::Pidfile Launcher::Signals Launcher::Single Listener Log::Forms
    Log::Sink Log::Text Log::Writer PlainFields RailsBoot Rejections Requests Saturation StallEvents StallReports
    Stats Stream::IONames TLS
    Launcher::HotRestart Launcher::Inherited Launcher::Messages Launcher::Origin Launcher::Succession Packages
    Launcher::Actions Launcher::Activated Launcher::Certificates Launcher::Endings Launcher::FromPuma SchedulerClass
    Server::TLSListeners
    Page::Files ProcessFile Profile PrunedBundle PumaConfiguration PumaErrors PumaGem PumaNames PumaOptions
    Sight Top Dashboard Web::Line Web::Streams Web::Visitor
    WaitSamples Launcher::LastBeat Launcher::Liveness Launcher::Paths Launcher::Plugins Launcher::RestartFile
    Launcher::Systemd Launcher::Title Launcher::Watched
  ].map { |name| "Abaca::#{name}" }.freeze

  # Methods that every Struct has.
  STRUCT = %i[new [] members inspect keyword_init?].freeze

  # How a method is called: the least and the most arguments, and its keywords.
  Call = Struct.new(:least, :most, :keywords)

  class << self
    def environment
      @environment ||= begin
        loader = RBS::EnvironmentLoader.new
        loader.add(path: Pathname(FOLDER))
        loader.add(library: "socket", version: nil)
        RBS::Environment.from_loader(loader).resolve_type_names
      end
    end

    def builder = @builder ||= RBS::DefinitionBuilder.new(env: environment)

    # What the folder declares.
    def declared = @declared ||= ours(environment.class_decls)

    def ours(declarations) = declarations.keys.select { |name| name.to_s.match?(/\A::Abaca\b/) }
  end

  def builder = self.class.builder

  # Public classes and modules below one, with itself.
  def modules_of(one)
    names = one.constants(false).reject { |name| INTERNAL.include?("#{one}::#{name}") }
    below = names.map { |name| one.const_get(name) }.grep(Module).select { |found| found.name.start_with?("#{one}::") }
    [one, *below.flat_map { |found| modules_of(found) }]
  end

  def ours?(owner) = owner.inspect.include?("Abaca")

  # Name => Method, of instances.
  def methods_of(one)
    names = one.public_instance_methods
    names << :initialize if one.is_a?(Class) && one < Object
    names.to_h { |name| [name, one.instance_method(name)] }.select { |_, method| ours?(method.owner) }
  end

  def methods_of_itself(one)
    names = one.public_methods - (one.is_a?(Class) && one < Struct ? STRUCT : [])
    names.to_h { |name| [name, one.method(name)] }.select { |_, method| ours?(method.owner) }
  end

  # Name => RBS::Definition::Method, as far as a declaration of ours says so.
  def signatures(definition)
    definition.methods.select do |name, method|
      (method.public? || name == :initialize) &&
        method.defs.any? { |one| one.implemented_in.to_s.start_with?("::Abaca") }
    end
  end

  # Yields each declared class or module with what is written, and what there is.
  def each_pair
    self.class.declared.each do |type|
      one = Object.const_get(type.to_s)
      yield "#{one}#", signatures(builder.build_instance(type)), methods_of(one)
      yield "#{one}.", signatures(builder.build_singleton(type)).except(:new), methods_of_itself(one).except(:new)
    end
  end

  def test_every_public_class_and_module_is_declared
    found = modules_of(Abaca).map(&:name)

    assert_operator found.size, :>, 20
    assert_empty found - self.class.declared.map { |type| type.to_s.delete_prefix("::") }
    assert_empty INTERNAL.reject { |name| Object.const_defined?(name) }
  end

  def test_every_public_method_has_a_signature
    missing = []
    each_pair { |prefix, written, found| missing.concat((found.keys - written.keys).map { |name| "#{prefix}#{name}" }) }
    assert_empty missing
  end

  def test_every_signature_has_a_method
    made_up = []
    each_pair { |prefix, written, found| made_up.concat((written.keys - found.keys).map { |name| "#{prefix}#{name}" }) }
    assert_empty made_up
  end

  def test_signatures_take_what_the_methods_take
    compared = 0
    wrong = []
    each_pair do |prefix, written, found|
      (written.keys & found.keys).each do |name|
        wanted = call_of(found[name]) or next
        compared += 1
        told = call_in(written[name])
        told.keywords = :any if wanted.keywords == :any # a signature may name those that the method passes on
        wrong << "#{prefix}#{name}: #{told.to_a} is not #{wanted.to_a}" unless told == wanted
      end
    end
    assert_operator compared, :>, 100
    assert_empty wrong
  end

  def test_every_type_resolves
    validator = RBS::Validator.new(env: self.class.environment)
    assert_operator definitions.size, :>, 40
    definitions.each { |one| one.each_type { |type| validator.validate_type(type, context: nil) } }
    self.class.ours(self.class.environment.type_alias_decls).each do |name|
      validator.validate_type(builder.expand_alias2(name, []), context: nil)
    end
    self.class.environment.constant_decls.each do |name, entry|
      validator.validate_type(entry.decl.type, context: nil) if name.to_s.start_with?("::Abaca")
    end
  end

  def test_constants_are_there
    names = self.class.ours(self.class.environment.constant_decls)
    refute_empty names
    assert_empty names.map(&:to_s).reject { |name| Object.const_defined?(name) }
  end

  private

  def definitions
    types = self.class.declared
    interfaces = self.class.ours(self.class.environment.interface_decls)
    types.map { |type| builder.build_instance(type) } + types.map { |type| builder.build_singleton(type) } +
      interfaces.map { |type| builder.build_interface(type) }
  end

  # nil where the code does not tell: methods that take what they pass on, and C functions that count for themselves.
  def call_of(method)
    kinds = method.parameters.map(&:first)
    return if kinds == [:rest] || (kinds & %i[rest keyrest nokey]).size > 1

    required = kinds.count(:req)
    most = kinds.include?(:rest) ? nil : required + kinds.count(:opt)
    Call.new(required, most, keywords(method))
  end

  def keywords(method)
    return :any if method.parameters.any? { |kind, _| kind == :keyrest }

    method.parameters.filter_map { |kind, name| name if %i[key keyreq].include?(kind) }.sort
  end

  def call_in(signature)
    calls = signature.method_types.map { |one| call_of_function(one.type) }
    Call.new(calls.map(&:least).min, calls.map(&:most).then { |most| most.include?(nil) ? nil : most.max },
             calls.map(&:keywords).then { |sets| sets.include?(:any) ? :any : sets.flatten.uniq.sort })
  end

  def call_of_function(function)
    required = function.required_positionals.size + function.trailing_positionals.size
    most = function.rest_positionals ? nil : required + function.optional_positionals.size
    names = [*function.required_keywords.keys, *function.optional_keywords.keys]
    Call.new(required, most, function.rest_keywords ? :any : names)
  end
end
